"""State that the standard library keeps for a script."""

import os
from pathlib import Path

import pytest

from tests.support.hidden_scripts import Script, resumed
from trainers.state.hidden import hidden_state

KEPT = {
    "what a function has cached": """
draw, count = np.random.default_rng(3), 0
@functools.cache
def rate(key, more=0): return draw.random()
class Rates:
    @staticmethod
    @functools.lru_cache(maxsize=None)
    def of(*key): return draw.random(), key
def step():
    global count
    count += 1
    return rate(count % 3), Rates.of(count % 2, "a")
def result(): return step()
""",
    "what a cached function leads to": """
seen = []
@functools.cache
def once(key): seen.append(key)
def step(): once(len(seen))
def result(): return seen
""",
    "a context variable": """
import contextvars
calls, unset = contextvars.ContextVar("calls"), contextvars.ContextVar("unset")
def step():
    calls.set(calls.get(0) + 1)
    return unset.get(None)
def result(): return calls.get()
""",
    "attributes of a thread": """
local = threading.local()
local.values = []
def step():
    local.values.append(len(local.values))
    local.count = getattr(local, "count", 0) + 1
def result(): return local.values, local.count
""",
    "what was cached and has changed since": """
@functools.cache
def table(): return {"steps": 0}
def step(): table()["steps"] += 1
def result(): return table()
""",
    "what a cached function kept of a value that changes": """
class Held:
    def __init__(self): self.rate = 1.0
held = Held()
@functools.cache
def rate(key): return held.rate + key
def step():
    held.rate *= 0.5
    return rate(round(held.rate * 4) % 3)
def result(): return rate(0), rate(1), rate(2)
""",
}


@pytest.mark.parametrize("what", KEPT)
def test_what_is_kept_goes_on_where_it_was(what: str) -> None:
    """In a process that has made the script's objects anew."""
    first, second, told = resumed(KEPT[what])
    assert told == []
    with first.running():
        expected = first.namespace["result"]()
    with second.running():
        assert second.namespace["result"]() == expected


LOST = {
    "the cache of rate()": """
@functools.lru_cache
def rate(key): return random.random()
def step(): return rate(1)
""",
    "the cache of named()": """
@functools.cache
def named(key): return random.random()
def step(): return named(key=1)
""",
    "the cache of Rates.of()": """
class Rates:
    def __init__(self): self.base = 1.0
    @functools.lru_cache
    def of(self, key): return self.base + key
rates = Rates()
def step():
    rates.base *= 0.5
    return rates.of(1)
""",
    "the cache of held()": """
@functools.lru_cache(maxsize=1)
def held(): return [0]
held()
def step(): held()[0] += 1
""",
    "the cache of scaled()": """
class Settings: scale = 1.0
@functools.lru_cache
def scaled(key): return Settings.scale * key
def step(): return scaled(2)
""",
}


@pytest.mark.parametrize("what", LOST)
def test_what_is_kept_and_cannot_be_saved_is_named(what: str) -> None:
    """Once it has changed, and not before."""
    script = Script(LOST[what])
    assert script.capture()[2] == []
    script.step()
    told = script.capture()[2]
    assert [one for one in told if what in one and "cannot be saved" in one] == told
    assert len(told) == 1


REPEATED = """
import math
def squared(x): return math.pow(x, 2)
@functools.lru_cache(maxsize=8)
def point(x, *, scale=1.0): return int(squared(x)) * scale, "a", None
@functools.cache
def points(x): return point(x)
def step():
    for x in range(20): points(x), point(x, scale=2.0)
"""


def test_a_cache_that_is_made_the_same_again_is_no_state() -> None:
    """As far as the function's code tells."""
    script = Script(REPEATED)
    script.step()
    state, _, told = script.capture()
    assert told == []
    assert state["values"] == {}


def test_a_cache_that_is_off_has_nothing_to_lose() -> None:
    """It keeps no results."""
    script = Script("""
@functools.lru_cache(maxsize=0)
def draw(): return random.random()
def step(): return draw()
""")
    script.step()
    assert script.capture()[2] == []


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function of the script changes in it; not what is ours, in each attempt."""
    source = """
import os
def step():
    os.environ["COUNT_OF_TEST"] = str(int(os.environ.get("COUNT_OF_TEST", "0")) + 1)
    os.environ["TRAINWARDEN_OF_TEST"] = "another"
"""
    for name in ("COUNT_OF_TEST", "TRAINWARDEN_OF_TEST"):
        monkeypatch.setenv(name, "0")
    script = Script(source)
    script.step(), script.step()
    state, tensors, told = script.capture()
    assert state["values"] == {"os.environ": {"COUNT_OF_TEST": ["2"]}}
    monkeypatch.setenv("COUNT_OF_TEST", "0")
    told += Script(source).restore({hidden_state.KEY: state}, tensors)
    assert os.environ["COUNT_OF_TEST"] == "2"
    assert told == []


def test_counts_of_a_cache_are_told_where_the_script_reads_them(tmp_path: Path) -> None:
    """What is cached is the same, and what is printed at the end is not."""
    source = """
@functools.cache
def word(key): return key * 2
word("a")
def step(): return word("a")
"""
    for end, expected in (("", 0), ("print(word.cache_info())", 1)):
        file = tmp_path / f"train{expected}.py"
        file.write_text(source + end)
        script = Script(f"__file__ = {str(file)!r}{source}")
        script.step()
        told = script.capture()[2]
        assert len(told) == expected
        assert all("changes cache_info of word()" in one for one in told)
