"""A job in the foreground: ``trainwarden run``, from its checks to its end."""
