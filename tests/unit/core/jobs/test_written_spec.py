"""A stored spec can be written down again as a file that means the same."""

import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from supervisor.core.jobs.spec import Spec, build_spec
from supervisor.core.jobs.written_spec import duration_text, written
from supervisor.core.text.toml_text import toml_tables
from supervisor.core.text.units import parse_duration

TEXT = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12
)
PATHS = TEXT.filter(bool)
ABSOLUTE = TEXT.map("/{}".format)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
VARIABLES = TEXT.filter(lambda name: bool(name) and "=" not in name)
SIZES = st.integers(1, 10**15 - 1)
COUNTS = st.one_of(
    st.integers(1, 10**15 - 1).map(str),
    st.decimals("0.001", "1000000", places=3).map(str),
)
DURATIONS = st.builds(
    "{}{}".format, COUNTS, st.sampled_from(["ms", "s", "min", "h", "d"])
)
INTERVALS = st.one_of(DURATIONS, st.integers(1, 10**9 - 1).map("{}steps".format))
OFF = st.just("off")
DEADLINES = st.one_of(DURATIONS, OFF)
SHARES = st.floats(0.001, 0.5)
HOSTS = st.sampled_from(["", "127.0.0.1", "box.example", "[::1]", "[1.2.3.4]"])
LISTEN = st.builds("{}:{}".format, HOSTS, st.integers(0, 65535))
BOOLEANS = st.booleans()


def table(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """With any of these keys."""
    return st.fixed_dictionaries({}, optional=keys)


SPECS = st.fixed_dictionaries(
    {"script": PATHS},
    optional={
        "args": st.lists(TEXT, max_size=3),
        "name": NAMES,
        "module": NAMES,
        "python": PATHS,
        "working_directory": PATHS,
        "environment": st.dictionaries(VARIABLES, TEXT, max_size=3),
        "gpus": st.lists(st.one_of(st.integers(0, 1023), st.just("GPU-5ec0"))),
        "gpu_count": st.integers(0, 1024),
        "priority": st.integers(-1000, 1000),
        "memory": table(cpu=SIZES, gpu=SIZES, host=SIZES),
        "snapshots": table(
            every=INTERVALS,
            keep=st.integers(2, 1000),
            quota=SIZES,
            memory=st.one_of(ABSOLUTE, OFF),
            memory_every=INTERVALS,
            budget=SHARES,
            remote_bandwidth=SIZES.map("{}B/s".format),
            remote_wait=DURATIONS,
        ),
        "compilation": table(cache=BOOLEANS, quota=SIZES),
        "files": table(rewind=st.one_of(BOOLEANS, st.lists(PATHS, max_size=2))),
        "microbatch": table(allow_inexact=BOOLEANS, reduce=st.sampled_from(["sqrt"])),
        "compute": table(
            slice=st.integers(1, 2**31),
            precision=st.just("mixed_bfloat16"),
            jit=BOOLEANS,
            recompute=BOOLEANS,
        ),
        "restart": table(back_off=DURATIONS, proof=st.sampled_from(["first"])),
        "remedies": table(patience=DURATIONS, in_place=BOOLEANS),
        "liveness": table(
            silent=DEADLINES,
            step=DEADLINES,
            compile=DEADLINES,
            factor=st.floats(1, 1e3),
        ),
        "drain": table(grace=DURATIONS),
        "forecast": table(restart_below=DEADLINES, warn_at=st.one_of(SHARES, OFF)),
        "logs": table(head=SIZES),
        "metrics": table(listen=st.one_of(LISTEN, OFF)),
        "notify": table(
            command=ABSOLUTE.map(lambda path: [path, "-v"]), addresses=ABSOLUTE
        ),
    },
)


@given(SPECS)
@example({"script": "x", "metrics": {"listen": "[::1]:9095"}})
@example({"script": "x", "snapshots": {"every": "5min", "memory_every": "3steps"}})
def test_what_is_written_means_the_same(tables: dict[str, Any]) -> None:
    """Whatever a person asked for: intervals, addresses, rates, and what is off."""
    spec = build_spec(tables)
    text = toml_tables(written(spec.model_dump(mode="json")))
    assert build_spec(tomllib.loads(text)) == spec


def test_only_what_differs_is_written() -> None:
    """A person can read that; the script stands there in any case."""
    stored = Spec(script="x").model_dump(mode="json")
    assert written(stored) == {"script": "x"}


def test_a_key_of_a_newer_daemon_is_told_as_it_is() -> None:
    """Whoever reads the spec says that it does not know it."""
    stored = {**Spec(script="x").model_dump(mode="json"), "later": 1}
    assert written(stored) == {"script": "x", "later": 1}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(90.0, "90s"), (0.25, "0.25s"), (1e-9 * 0.001, "0.000000001ms")],
)
def test_a_duration(seconds: float, text: str) -> None:
    """In the plainest unit in which it can be said."""
    assert duration_text(seconds) == text


def test_a_duration_that_nobody_can_have_written() -> None:
    """The nearest."""
    assert abs(parse_duration(duration_text(1 / 3)) - 1 / 3) < 1e-9
