"""The rules of the remote tier: addresses, who may write, at which pace."""
