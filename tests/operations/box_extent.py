"""How much is tried on a box with systemd: a sample, or in ``make systemd`` the whole."""

import os

RESTARTS = int(os.environ.get("TRAINWARDEN_RESTARTS", "3"))
"""How often the daemon is ended while training goes on, in three ways in turn."""
WHOLE = RESTARTS >= 50
"""Whether everything is killed together with everything, and not a sample of it."""
