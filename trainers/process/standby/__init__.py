"""A standby: the process of an attempt that imports before it is told what it is to do."""
