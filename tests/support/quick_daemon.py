"""A real daemon whose attempts are no processes: ``python -m tests.support.quick_daemon
CONFIGURATION``. Its control socket may be asked for anything at all: no script of
anybody's making is ever started."""

import os
import sys
from pathlib import Path

from supervisor.core.jobs.config import build_config
from supervisor.daemon.composition import composed
from supervisor.host.service.user_name import user_name
from supervisor.wire.messages.directive import Directive
from tests.support.quick_attempts import Fate, QuickHouse, QuickLauncher


def fate(directive: Directive) -> Fate:
    """Some finish, some fail, and some go on until they are asked to end."""
    kind = len(directive.job) % 3
    return Fate(looks=10**9 if kind == 2 else 1, finishes=kind == 0)


def main() -> None:
    """Run until SIGTERM."""
    config = build_config(Path(sys.argv[1]).read_text())
    launcher_factory = QuickHouse(
        user=user_name(os.geteuid()), launcher=QuickLauncher(fate=fate)
    )
    with composed(config, launcher_factory=launcher_factory) as daemon:
        daemon.run()


if __name__ == "__main__":
    main()
