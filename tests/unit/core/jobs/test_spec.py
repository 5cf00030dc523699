"""The spec: validated whole, and merged from file and options."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.spec import Spec, SpecError, build_spec, merge, read_toml
from supervisor.core.jobs.spec_values import SnapshotInterval, parse_interval
from supervisor.core.liveness.hang_detection import Deadlines
from supervisor.core.remediation.escalation import Allow
from supervisor.core.text.address import Address

FULL = """
script = "train.py"
args = ["--epochs", "3"]
name = "digits"
python = "/srv/venv/bin/python"
gpus = [0, "GPU-5ec0"]

[memory]
cpu = "600MiB"
gpu = 1048576

[snapshots]
every = "200steps"
keep = 5
quota = "20GiB"
memory = "/mnt/ram"
memory_every = "2s"
budget = "2.5%"

[drain]
grace = "5min"

[metrics]
listen = "127.0.0.1:9464"
"""


def spec_of(text: str) -> Spec:
    """The spec in a TOML text."""
    return build_spec(read_toml(text))


def problems_of(text: str) -> dict[str, str]:
    """What is wrong with a TOML text, by path."""
    with pytest.raises(SpecError) as caught:
        spec_of(text)
    return {problem.path: problem.expected for problem in caught.value.problems}


def test_a_full_spec() -> None:
    """Sizes, durations and intervals are read as people write them."""
    spec = spec_of(FULL)
    assert spec.memory.cpu == 600 * 2**20
    assert spec.memory.gpu == 2**20
    assert spec.snapshots.every == SnapshotInterval(steps=200)
    assert spec.snapshots.memory_every == SnapshotInterval(seconds=2.0)
    assert (spec.snapshots.memory, spec.snapshots.budget) == ("/mnt/ram", 0.025)
    assert spec.snapshots.quota == 20 * 2**30
    assert spec.drain.grace == 300
    assert spec.gpus == (0, "GPU-5ec0")
    assert spec.metrics.listen == Address("127.0.0.1", 9464)


def test_every_problem_at_once() -> None:
    """All that is wrong is told in one go, each with its path and what was expected."""
    problems = problems_of(
        """
        nam = "x"
        args = [1]
        gpus = [-1]
        environment = 3
        [memory]
        cpu = "6xx"
        gpu = true
        [snapshots]
        every = 3
        keep = "a"
        [drain]
        grace = 5
        [metrics]
        listen = 9464
        [microbatch]
        allow_inexact = 2
        reduce = "cubic"
        """
    )
    assert problems["script"] == "is required"
    assert problems["nam"].endswith("did you mean 'name'?")
    assert problems["args[0]"] == "expected text, got 1"
    assert "index, such as 0, or its UUID" in problems["gpus[0]"]
    assert problems["environment"].startswith("expected a table")
    assert "such as 600MiB" in problems["memory.cpu"]
    assert "such as 600MiB" in problems["memory.gpu"]
    assert "200steps" in problems["snapshots.every"]
    assert problems["snapshots.keep"].startswith("expected a whole number")
    assert "such as 30s" in problems["drain.grace"]
    assert "HOST:PORT" in problems["metrics.listen"]
    assert problems["microbatch.allow_inexact"].startswith("expected true or false")
    assert (
        problems["microbatch.reduce"]
        == "expected 'off', 'keep', 'sqrt' or 'linear', got 'cubic'"
    )


def test_a_table_around_what_belongs_to_the_top() -> None:
    """As other programs have it."""
    found = problems_of('[job]\nscript = "t.py"\nname = "x"')
    assert found["job"].endswith("what stands in it belongs to the top of the file")


def test_an_unknown_key_in_a_table_lists_the_known_ones() -> None:
    """A key that resembles nothing is answered with what there is."""
    found = problems_of('script = "t.py"\n[memory]\nzzz = 1')
    assert found == {"memory.zzz": "is not a key here; known: cpu, gpu, host"}


def test_a_value_out_of_range() -> None:
    """What pydantic says of a range is passed on."""
    found = problems_of('script = "t.py"\n[snapshots]\nkeep = 1')
    assert found["snapshots.keep"].startswith("expected greater than or equal to 2")


def test_off_is_no_address() -> None:
    """``off`` serves nothing."""
    spec = spec_of('script = "t.py"\n[metrics]\nlisten = "off"')
    assert spec.metrics.listen is None


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".x", "-x", "x" * 65, "a\n"])
def test_names_cannot_leave_their_directory(name: str) -> None:
    """A job's name is one plain path component."""
    with pytest.raises(SpecError, match="name: expected a name"):
        build_spec({"script": "t.py", "name": name})


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        (
            {"script": "a\0b"},
            "script: expected text in UTF-8 that can be a file's name",
        ),
        ({"script": "t.py", "args": ["\udc80"]}, "args[0]: expected text in UTF-8"),
        ({"script": ""}, "script: must not be empty"),
        ({"script": "t.py", "python": ""}, "python: must not be empty"),
        ({"script": "t.py", "environment": {"": "x"}}, "the name of an environment"),
        ({"script": "t.py", "environment": {"A=B": "x"}}, "the name of an environment"),
        (
            {"script": "t.py", "environment": {"A": "\0"}},
            "environment.A: expected text",
        ),
        ({"script": "t.py", "memory": {"cpu": "0.1b"}}, "memory.cpu: expected a size"),
    ],
)
def test_what_no_process_can_be_given(tables: dict[str, Any], told: str) -> None:
    """The kernel takes no NUL in a path, an argument or a variable, and no file is
    called by half of a surrogate pair: a launcher never gets to see them."""
    with pytest.raises(SpecError) as caught:
        build_spec(tables)
    assert told in str(caught.value)


def test_a_whole_number_is_a_part_too() -> None:
    """JSON writes 1.0 as it likes; True is no number."""
    spec = build_spec({"script": "t.py", "forecast": {"warn_at": 1}})
    assert spec.forecast.warn_at == 1.0
    with pytest.raises(SpecError, match="warn_at: expected a part"):
        build_spec({"script": "t.py", "forecast": {"warn_at": True}})


def test_no_toml() -> None:
    """Broken TOML is one problem of the whole file."""
    with pytest.raises(SpecError, match="is not valid TOML") as caught:
        read_toml("script = ")
    assert caught.value.problems[0].path == ""


def test_intervals() -> None:
    """An interval is time or steps."""
    assert parse_interval("30s") == SnapshotInterval(seconds=30)
    assert parse_interval("1 step") == SnapshotInterval(steps=1)
    for text in ("0steps", "steps", "x"):
        with pytest.raises(ValueError, match="200steps"):
            parse_interval(text)


def test_options_win_over_the_file_key_by_key() -> None:
    """Tables are merged, not replaced."""
    below = {"memory": {"cpu": "1GiB", "gpu": "2GiB"}, "script": "a"}
    above = {"memory": {"cpu": "600MiB"}, "name": "n"}
    assert merge(below, above) == {
        "memory": {"cpu": "600MiB", "gpu": "2GiB"},
        "script": "a",
        "name": "n",
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["script", "memory", "cpu", "gpus", "x", "snapshots"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_hostile_tables(value: Any) -> None:
    """Whatever a file holds, the answer is a spec or a list of problems."""
    tables = cast(
        "dict[str, object]", value if isinstance(value, dict) else {"script": value}
    )
    try:
        script: str | None = build_spec(tables).script
    except SpecError as caught:
        script = None
        problems = caught.problems
    else:
        problems = ()
    assert script or problems


def test_memory_tier_can_be_turned_off() -> None:
    """By default it lies in /dev/shm, with a budget of 1 %."""
    off = spec_of('script = "a"\n[snapshots]\nmemory = "off"\nbudget = 0.2')
    assert (off.snapshots.memory, off.snapshots.budget) == (None, 0.2)
    default = spec_of('script = "a"').snapshots
    assert (default.memory, default.budget) == ("/dev/shm", 0.01)  # noqa: S108


@pytest.mark.parametrize("budget", ["0%", "51%", "1.2.3%", "much", 0.0, 1, 0.6])
def test_wrong_budgets_and_places_are_told(budget: object) -> None:
    """Each with what was expected."""
    tables = {"script": "a", "snapshots": {"budget": budget, "memory": "shm"}}
    with pytest.raises(SpecError) as caught:
        build_spec(tables)
    told = {problem.path: problem.expected for problem in caught.value.problems}
    assert "expected a share such as 1%" in told["snapshots.budget"]
    assert "absolute path of a tmpfs" in told["snapshots.memory"]


def test_what_changes_the_computation_is_off_unless_the_spec_says_so() -> None:
    """Precision, batches and rate are the person's to change."""
    assert build_spec({"script": "t.py"}).remedies.allowed == frozenset()
    spec = build_spec(
        {"script": "t.py", "remedies": {"mixed_precision": True, "lower_rate": True}}
    )
    assert spec.remedies.allowed == {Allow.MIXED_PRECISION, Allow.LOWER_RATE}


def test_deadlines_are_durations_or_off() -> None:
    """A phase that may take for ever has none."""
    spec = build_spec(
        {"script": "t.py", "liveness": {"step": "10s", "startup": "off", "factor": 3.0}}
    )
    deadlines = spec.liveness.deadlines
    assert (deadlines.step, deadlines.startup, deadlines.factor) == (10.0, None, 3.0)
    assert deadlines.silent == Deadlines().silent
    assert "liveness.step" in problems_of('script = "t.py"\n[liveness]\nstep = 5')


def test_a_module_to_run() -> None:
    """By its name, as ``python -m`` takes it."""
    assert build_spec({"script": "p/t.py", "module": "p.t"}).module == "p.t"
    with pytest.raises(SpecError, match=r"module: expected the name of a module"):
        build_spec({"script": "p/t.py", "module": "p/t.py"})
