"""Processes of the machine: started, found, measured, ended."""
