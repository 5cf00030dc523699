"""Where a seed comes from, as the source of a script says."""

import ast

import pytest

from trainers.process.script.seed_source import SeedSource

FRESH = {
    "in the call": "np.random.seed(int(time.time()) % 1000)",
    "by a name": "seed = datetime.now().microsecond\nset_random_seed(seed)",
    "by two names": "a = time_ns()\nb = a // 7 + 1\nrandom.seed(b)",
    "by an attribute": "args.seed = os.getpid()\nrandom.seed(args.seed)",
    "by a function": "def make():\n    return uuid4().int\nrandom.seed(make())",
    "one of two": "a, b = 1, time.time()\nrandom.seed(b)",
    "within a function": "def f():\n    s = time.time()\n    random.seed(s)\nf()",
    "by a keyword": "split(x, random_state=int(time.time()))",
    "named on the way": "seed_all(s := time.time())",
}
STEADY = {
    "written": "random.seed(42)",
    "of arguments": "args = parse()\nrandom.seed(args.seed)",
    "another name": "start = time.time()\nrandom.seed(7)",
    "a name of elsewhere": "def f():\n    s = time.time()\ns = 3\nrandom.seed(s)",
    "of the run": "random.seed(np.random.randint(100))",
}


def last_call(text: str) -> tuple[SeedSource, ast.Call]:
    """Of those that mention a seed or a split."""
    source = SeedSource(text)
    calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]
    named = [
        one
        for one in calls
        if any(part in ast.unparse(one.func) for part in ("seed", "split"))
    ]
    wanted = max(named, key=lambda one: one.lineno)
    place = wanted.lineno, wanted.end_lineno, wanted.col_offset, wanted.end_col_offset
    found = source.call_at(place)  # type: ignore[arg-type]  # parsed, so it has them
    assert found is not None
    return source, found


@pytest.mark.parametrize("text", FRESH.values(), ids=FRESH)
def test_what_is_fresh_is_found(text: str) -> None:
    """However it came to the call."""
    source, call = last_call(text)
    assert source.is_fresh(call, named=False)
    assert source.is_fresh(call, named=True)


@pytest.mark.parametrize("text", STEADY.values(), ids=STEADY)
def test_what_is_the_same_again_is_not(text: str) -> None:
    """Numbers that are written, arguments, the run's own draws."""
    source, call = last_call(text)
    assert not source.is_fresh(call, named=False)


def test_a_name_with_the_time_is_no_seed() -> None:
    """Where a library stands between, only what is named after a seed counts."""
    source, call = last_call("split(x, log_dir=f'run-{time.time()}', seed=3)")
    assert not source.is_fresh(call, named=True)


def test_what_a_helper_is_given_is_a_parameter() -> None:
    """So whoever calls the helper is asked."""
    source, call = last_call("def seed_all(n):\n    random.seed(n + 1)")
    assert source.is_parameter(call)
    source, call = last_call("n = 3\nrandom.seed(n + 1)")
    assert not source.is_parameter(call)


def test_no_call_is_elsewhere() -> None:
    """The file may have been changed while it runs."""
    assert SeedSource("random.seed(5)").call_at((9, 9, 0, 3)) is None
