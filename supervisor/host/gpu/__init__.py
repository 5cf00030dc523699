"""NVML in a process of its own, the kernel log, and who listens to them."""
