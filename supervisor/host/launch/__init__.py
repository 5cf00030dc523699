"""Launchers: how attempts are started, by systemd or as children, and the shim."""
