"""One module a command, or a family of commands."""
