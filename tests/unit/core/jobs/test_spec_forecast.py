"""The part of a spec about memory that grows."""

import pytest

from supervisor.core.jobs.spec import SpecError, build_spec


def test_what_holds_by_itself() -> None:
    """Leaks are answered, and nine tenths are warned of."""
    forecast = build_spec({"script": "x.py"}).forecast
    assert (forecast.restart_below, forecast.warn_at) == (20.0, 0.9)


@pytest.mark.parametrize(
    ("given", "meant"), [("85%", 0.85), (0.5, 0.5), ("100 %", 1.0), ("off", None)]
)
def test_thresholds(given: object, meant: float | None) -> None:
    """A percentage, a part, or never."""
    tables = {"script": "x.py", "forecast": {"warn_at": given}}
    assert build_spec(tables).forecast.warn_at == meant


@pytest.mark.parametrize("given", ["1.2.3%", "0%", 0.0, 1.5, "soon", True, "101%"])
def test_no_thresholds(given: object) -> None:
    """Anything else is answered with what was expected."""
    with pytest.raises(SpecError, match="above 0 and at most 100%"):
        build_spec({"script": "x.py", "forecast": {"warn_at": given}})


def test_never() -> None:
    """Planned restarts can be turned off."""
    tables = {"script": "x.py", "forecast": {"restart_below": "off"}}
    assert build_spec(tables).forecast.restart_below is None
