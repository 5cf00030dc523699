"""The dashboards as tables: fleet, box, run, memory, GPU."""
