"""Notifications on their way: to services, mail, desktops, commands."""
