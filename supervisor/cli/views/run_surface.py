"""Where a run in the foreground is shown: a terminal, two streams, or JSON lines."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from supervisor.cli.views import json_lines
from supervisor.cli.views.console import LastingConsole, View, lasting
from supervisor.cli.views.json_lines import JsonView
from supervisor.cli.views.run_lines import RunLines
from supervisor.cli.views.run_screen import RunScreen, ScreenOptions
from supervisor.host.telemetry.output_follower import OutputFollower


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """What the person asked for, and what standard output is."""

    quiet: bool
    output: bool
    """Whether what the script prints is shown."""
    as_json: bool

    @property
    def terminal(self) -> bool:
        """Whether a person looks at it."""
        return not self.as_json and os.isatty(1)

    @property
    def output_beside_our_lines(self) -> bool:
        """Whether who reads our lines has seen what the script printed."""
        return self.output and (self.terminal or _same_file(1, 2))

    def console(self) -> AbstractContextManager[LastingConsole]:
        """For what does not go by ``view``'s own ways."""
        return lasting(1, gap=json_lines.left_out) if self.as_json else lasting(2)

    def view(self, console: LastingConsole, follower: OutputFollower) -> View:
        """The place; ``follower``: of what the script prints."""
        if self.as_json:
            return JsonView(console)
        wanted = follower if self.output else None
        if self.terminal:
            return RunScreen(wanted, ScreenOptions.of(os.environ, quiet=self.quiet))
        return RunLines(console, wanted, quiet=self.quiet)


def _same_file(one: int, other: int) -> bool:
    """Whether both descriptors lead to the same place."""
    try:
        return Path(f"/dev/fd/{one}").samefile(f"/dev/fd/{other}")
    except OSError:
        return False
