"""Files that the script itself writes: noticed, and put back with a snapshot's state."""
