"""The control socket: HTTP over a Unix socket, with peer credentials."""
