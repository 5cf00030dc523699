"""What a spec says of logs, and of processes that cannot be killed."""

import pytest

from supervisor.core.jobs.spec import SpecError, build_spec


def test_what_holds_by_itself() -> None:
    """An attempt's log takes 128 MiB; D state is told 20 s after SIGKILL."""
    spec = build_spec({"script": "x.py"})
    assert (spec.logs.head, spec.logs.tail) == (32 << 20, 96 << 20)
    assert spec.drain.unkillable == 20.0


def test_sizes_and_times() -> None:
    """As everywhere in a spec."""
    tables = {
        "script": "x.py",
        "logs": {"head": "1MiB", "tail": "2MiB"},
        "drain": {"unkillable": "2min"},
    }
    spec = build_spec(tables)
    assert (spec.logs.head, spec.logs.tail) == (1 << 20, 2 << 20)
    assert spec.drain.unkillable == 120.0


@pytest.mark.parametrize("given", [{"head": 0}, {"tail": "off"}, {"middle": "1MiB"}])
def test_no_sizes(given: dict[str, object]) -> None:
    """Anything else is a problem with a name."""
    with pytest.raises(SpecError, match=r"logs\."):
        build_spec({"script": "x.py", "logs": given})
