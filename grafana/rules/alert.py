"""An alert: what it asks, who is woken, what they are told, and how it is tested."""

import enum
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

RUNBOOKS = os.environ.get("RUNBOOKS", "https://trainwarden.example/runbooks")
"""Where people read the runbooks of ``deploy/runbooks``. The one place to change it:
``make generated RUNBOOKS=https://...``, or one ``sed`` over ``alerts.yml`` and
``alerts_test.yml``."""
BOX = "box:9464"
"""The target in the tests."""
RUNNING = 'trainwarden_run_state{run="digits", state="running"}'
TRAINING = 'trainwarden_phase{run="digits", phase="training"}'
"""Series of the run in the tests."""
DIGITS = {"run": "digits"}
"""Its labels."""
RUN = "trainwarden-run"
"""The uid of the dashboard of runs."""


class Severity(enum.StrEnum):
    """Who is to be told."""

    CRITICAL = "critical"
    """Somebody, now: training stands still, or hardware fails."""
    WARNING = "warning"
    """Somebody, today: it costs time, or will become critical."""
    INFO = "info"
    """Whoever looks: nothing is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCase:
    """One story for promtool, on one box; times in minutes from its beginning."""

    about: str
    series: Mapping[str, str]
    """Values, in promtool's notation, by series without the label ``instance``."""
    fires: int | None = None
    """The first minute in which it does; None: it never does."""
    silent: int | None = None
    """Of a case in which it never fires: until which minute that is looked at."""
    labels: tuple[Mapping[str, str], ...] = ({},)
    """Of each alert that fires, without those that all have."""
    resolved: int | None = None
    """The first minute in which it is over; None: not in this story."""
    instance: bool = True
    """Whether the alert is about a box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule."""

    name: str
    severity: Severity
    expr: str
    why: str = ""
    """What its numbers rest on: a comment for who reads the rules."""
    hold: str = "0m"
    """How long it must hold before it fires."""
    summary: str
    description: str
    panel: tuple[str, str]
    """The dashboard's uid, and the title of the panel that shows it."""
    cases: tuple[AlertCase, ...] = field(default=())


LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")


def told(text: str, labels: Mapping[str, str]) -> str:
    """``text`` as Prometheus fills it in for these labels."""
    return LABEL.sub(lambda found: labels.get(found[1], ""), text)


def on_box(series: str) -> str:
    """A series of the target in the tests."""
    name, brace, rest = series.partition("{")
    return f'{name}{{instance="{BOX}"' + (f",{rest}" if brace else "}")
