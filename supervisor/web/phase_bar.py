"""Where the time of a run went: one bar, in the order of phases."""

from collections.abc import Mapping
from dataclasses import dataclass

from supervisor.core.text.units import format_duration
from supervisor.web.markup import Element, tag

WIDTH, HEIGHT = 960, 28
NAMES = {
    "starting": "starting",
    "restoring": "restoring a snapshot",
    "compiling": "first step: tracing, compiling",
    "training": "training",
    "validating": "validating",
    "snapshot": "held up by snapshots",
    "replaying": "steps done again",
    "between": "callbacks, and the script outside of fit",
    "finished": "ending",
    "waiting": "between attempts, and Python starting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpent:
    """Seconds by phase, and of no phase."""

    phases: Mapping[str, float]
    """Complete ones only: an epoch that runs is not in here yet, its steps are."""
    elapsed_seconds: float
    steps: int = 0
    """Those that were timed."""
    step_seconds: float = 0.0
    """What they took, those done again included."""
    attempts: int = 1

    @property
    def all(self) -> dict[str, float]:
        """With what is in no phase as ``waiting``; without what took no time."""
        known = {
            name: self.phases.get(name, 0.0) for name in NAMES if name != "waiting"
        }
        known["waiting"] = max(self.elapsed_seconds - sum(known.values()), 0.0)
        return {name: seconds for name, seconds in known.items() if seconds > 0}

    @property
    def goodput(self) -> float | None:
        """The share of the time that went into steps and validation, less steps done
        again: as the recording rule ``trainwarden_goodput`` has it. None: no step was
        timed, which is not to say that there was none."""
        whole = max(self.elapsed_seconds, sum(self.all.values()))
        if not self.steps or whole <= 0:
            return None
        phases = self.phases
        good = self.step_seconds + phases.get("validating", 0.0)
        return min(max(good - phases.get("replaying", 0.0), 0.0) / whole, 1.0)


def phase_figure(spent: TimeSpent) -> Element | None:
    """The bar with its legend; None where no time was spent."""
    parts, whole = spent.all, sum(spent.all.values())
    if not parts:
        return None
    at, drawn = 0.0, list[Element]()
    for name, seconds in parts.items():
        width = seconds / whole * WIDTH
        drawn.append(
            tag("rect", x=at, y=0, width=width, height=HEIGHT, class_=f"phase-{name}")
        )
        at += width
    words = ", ".join(f"{NAMES[n]} {format_duration(s)}" for n, s in parts.items())
    title = "Where the time went"
    return tag(
        "figure",
        tag("figcaption", title),
        tag(
            "svg",
            tag("title", title, id="phases-title"),
            tag("desc", words, id="phases-words"),
            drawn,
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            preserveAspectRatio="none",
            role="img",
            aria_labelledby="phases-title phases-words",
            class_="strip",
        ),
        tag(
            "ul",
            [
                tag(
                    "li",
                    tag("span", class_=f"key phase-{name}"),
                    f"{NAMES[name]} {format_duration(seconds)} ({seconds / whole:.0%})",
                )
                for name, seconds in parts.items()
            ],
            class_="legend",
        ),
        class_="wide",
    )
