"""Conditions that alerts share, as PromQL: what was counted lately, and what lasts."""

from grafana.rules.recording_rules import ACTIVE

BY_RUN = "instance, run"


def counted(
    counter: str, *, more_than: float = 0, within: str = "30m", by: str = BY_RUN
) -> str:
    """The ``counter`` grew by more than that. Halves are between two counts: increase()
    extrapolates to the edges of its window, and may come out a little off."""
    return f"sum by ({by}) (increase({counter}[{within}])) > {more_than:g}"


def lasting(condition: str, *, average: str, since: str) -> str:
    """The ``condition`` on an ``average``, of a run that goes on, and of which there was
    one ``since`` then: of what has just begun it says little, and it outlives what ends."""
    there = f"and on (instance, run) {average} offset {since}"
    return f"{condition}\n{there}\nand on (instance, run) {ACTIVE} == 1"
