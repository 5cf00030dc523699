"""What a running ``fit`` tells of its steps."""
