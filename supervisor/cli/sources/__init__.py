"""Where commands read from: the daemon, the files of a state directory, the remote tier."""
