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
    "given, or else the clock's": (
        "if args.seed is None:\n    args.seed = int(time.time())\nrandom.seed(args.seed)"
    ),
    "one of several values": "s = time.time()\ns = 3\nrandom.seed(s)",
    "beside a time": 'cfg = {"seed": 42, "at": time.time()}\nrandom.seed(cfg["seed"])',
    "what came with a time": (
        "def load():\n    t = time.time()\n    return 1, 2, time.time() - t\n"
        "x, fold, took = load()\nrandom.seed(fold)"
    ),
    "of a method": (
        "class T:\n    def get(self):\n        return time.time()\n"
        "random.seed(cfg.get('seed'))"
    ),
    "of a text": "run = f'{time.time()}-7'\nrandom.seed(int(run[-1:]))",
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
    assert source.is_fresh(source.seeds(call, named=False))
    assert source.is_fresh(source.seeds(call, named=True))


@pytest.mark.parametrize("text", STEADY.values(), ids=STEADY)
def test_what_is_the_same_again_is_not(text: str) -> None:
    """Numbers that are written, arguments, the run's own draws."""
    source, call = last_call(text)
    assert not source.is_fresh(source.seeds(call, named=False))


def test_a_name_with_the_time_is_no_seed() -> None:
    """Where a library stands between, only what is named after a seed counts."""
    source, call = last_call("split(x, log_dir=f'run-{time.time()}', seed=3)")
    assert not source.is_fresh(source.seeds(call, named=True))


@pytest.mark.parametrize(
    ("helper", "caller", "fresh"),
    [
        ("def seed_all(n):\n    random.seed(n + 1)", "seed_all(uuid4().int)", True),
        ("def seed_all(n):\n    random.seed(n + 1)", "seed_all(n=time.time())", True),
        (
            "def seed_all(seed, run):\n    random.seed(seed)",
            "seed_all(42, f'run-{time.time()}')",
            False,
        ),
        (
            "def seed_all(seed, started):\n    random.seed(seed)",
            "seed_all(started=time.time(), seed=7)",
            False,
        ),
        (
            "class T:\n    def seed(self, n, log):\n        random.seed(n)",
            "t.seed(7, time.time())",
            False,
        ),
        ("def seed_all(n):\n    random.seed(3)", "seed_all(time.time())", False),
    ],
)
def test_what_a_helper_is_given_is_looked_at(
    helper: str, caller: str, *, fresh: bool
) -> None:
    """And nothing beside the seed: the name of a run has the time in it most often."""
    source, call = last_call(helper)
    assert not source.is_fresh(source.seeds(call, named=False))
    wanted = source.parameters(call, source.seeds(call, named=False))
    source, call = last_call(caller)
    assert source.is_fresh(source.given(call, wanted)) is fresh


def test_no_call_is_elsewhere() -> None:
    """The file may have been changed while it runs."""
    assert SeedSource("random.seed(5)").call_at((9, 9, 0, 3)) is None
