"""Notifications of runs and disks, on their way to people."""
