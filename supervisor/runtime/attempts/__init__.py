"""One attempt of a run: directed, started, watched, ended, and its evidence gathered."""
