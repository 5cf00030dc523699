"""Which runs of trackers are given an id: real attempts, with packages made up here.

The real packages are in ``tests/e2e/test_trackers_slow.py``.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.samples import sampled

WANDB = """
import itertools
import json
import types

__version__ = "0.31.0"
numbers = itertools.count(1)


class Config(dict):
    def _sanitize(self, key, val, allow_val_change=None):
        if key in self and not allow_val_change:
            raise ValueError("changed")
        return key, val

    def __setattr__(self, key, val):
        raise ValueError("an item")


def init(project=None, id=None, name=None, mode="online", resume=None, settings=None,
         entity=None, group=None, job_type=None):
    asked = {"project": project, "id": id, "name": name, "resume": resume}
    with open("calls.jsonl", "a") as file:
        file.write(json.dumps(asked) + "\\n")
    if id == "gone":
        raise RuntimeError("deleted")
    return types.SimpleNamespace(
        id=id or f"{project}-{next(numbers)}",
        disabled=mode == "disabled", offline=mode == "offline",
        config=Config(begun=1),
    )
"""
MLFLOW = """
import types

from mlflow.fluent import active_run, get_run, log_param, log_params, start_run
"""
FLUENT = """
import json
import os
import types

PARAMS = json.load(open("params.json")) if os.path.exists("params.json") else {}
runs = []


def start_run(run_id=None, experiment_id=None, run_name=None, nested=False):
    with open("calls.jsonl", "a") as file:
        file.write(json.dumps({"id": run_id}) + "\\n")
    runs.append(types.SimpleNamespace(info=types.SimpleNamespace(run_id=run_id or "first")))
    return runs[-1]


def active_run():
    return runs[-1] if runs else start_run()


def get_run(run_id):
    return types.SimpleNamespace(data=types.SimpleNamespace(params=PARAMS))


def log_param(key, value, synchronous=None):
    log_params({key: value})
    return value


def log_params(params, synchronous=None, run_id=None):
    for key, value in params.items():
        if PARAMS.setdefault(key, value) != value:
            raise ValueError("changing a parameter is not allowed")
    json.dump(PARAMS, open("params.json", "w"))
"""


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    """Of a run that has a place beside its attempts; the packages beside the script."""
    made = Attempts(tmp_path, {"kept_script": str(tmp_path / "run" / "script")})
    (tmp_path / "run").mkdir()
    made.script(WANDB, "wandb.py")
    made.script(MLFLOW, "mlflow/__init__.py")
    made.script(FLUENT, "mlflow/fluent.py")
    return made


def calls(attempts: Attempts) -> list[dict[str, Any]]:
    """What the package was called with, by all attempts."""
    lines = (attempts.directory / "calls.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def asked(attempts: Attempts, text: str, count: int = 2, **options: Any) -> list[Any]:
    """The ids that the package was asked for in so many attempts of a script."""
    script = attempts.script(text)
    for _ in range(count):
        outcome = attempts.run(script, **options)
        assert outcome.code == 0, outcome.err
    return [call["id"] for call in calls(attempts)]


def notices(outcome: AttemptOutcome) -> list[str]:
    """What was told."""
    return [fields["sentence"] for fields in outcome.of(RecordKind.NOTICE)]


def test_the_second_attempt_goes_on(attempts: Attempts) -> None:
    """The id of the first is given with what resumes it; each call has its own."""
    text = "import wandb\nfor name in ('x', 'x', 'y'):\n    wandb.init('p', name=name)"
    assert asked(attempts, text) == [None, None, None, "p-1", "p-2", "p-3"]
    assert {call["resume"] for call in calls(attempts)[3:]} == {"allow"}


def test_it_is_told_once(attempts: Attempts) -> None:
    """A hundred folds are no hundred lines."""
    script = attempts.script("import wandb\nwandb.init('p')\nwandb.init('p')")
    assert notices(attempts.run(script)) == []
    (told,) = notices(attempts.run(script))
    assert told == "Weights & Biases: run p-1 goes on"


def test_a_script_that_leaves_one_out_has_the_others(attempts: Attempts) -> None:
    """They are known by name."""
    text = (
        "import os, wandb\n"
        "for fold in range(2 if os.path.exists('done') else 0, 4):\n"
        "    wandb.init('p', name=f'fold {fold}')\n"
        "open('done', 'w').close()"
    )
    assert asked(attempts, text) == [None] * 4 + ["p-3", "p-4"]


OWN_ID = "wandb.init('p', 'mine')"
OFFLINE = "wandb.__version__ = '0.30.4'; wandb.init('p', mode='offline')"
FORKED = "os.fork() or (wandb.init('p'), os._exit(0)); os.wait()"
SAYS = [
    OWN_ID,
    "wandb.init('p', resume='must')",
    "wandb.init('p', settings={'run_id': 'mine'})",
    "wandb.init('p', mode='disabled')",
    OFFLINE,
    "os.environ['WANDB_RUN_ID'] = 'mine'; wandb.init('p')",
    FORKED,
]


@pytest.mark.parametrize("call", sampled(SAYS, OWN_ID, OFFLINE, FORKED))
def test_what_the_script_says_holds(attempts: Attempts, call: str) -> None:
    """Its own id or way to resume, a run that is none, and one that W&B would not join."""
    first, second = asked(attempts, f"import os, wandb\n{call}")
    assert first == second


def test_a_run_that_is_gone_is_begun_anew(attempts: Attempts) -> None:
    """The call fails with the id, and is made again without; the next attempt has the
    new one."""
    kept = attempts.directory / "run" / "trackers.json"
    label = json.dumps([None, "p", None, None, None])
    kept.write_text(json.dumps({"wandb": {label: ["gone"]}}))
    script = attempts.script("import wandb\nprint(wandb.init('p').id)")
    outcome = attempts.run(script)
    assert outcome.out == "p-1\n"
    (told,) = notices(outcome)
    assert "run gone does not go on (RuntimeError); the script begins another" in told
    assert attempts.run(script).out == "p-1\n"
    assert [call["id"] for call in calls(attempts)] == ["gone", None, "p-1"]


def test_a_package_of_another_kind_is_left_alone(attempts: Attempts) -> None:
    """One that does not take what we would give it."""
    attempts.script("def init(project):\n    return project", "wandb.py")
    script = attempts.script("import wandb\nprint(wandb.init('p'))")
    assert [attempts.run(script).out for _ in range(2)] == ["p\n", "p\n"]


def test_errors_are_the_packages_own(attempts: Attempts) -> None:
    """A call that it does not take, and one that fails in it."""
    script = attempts.script("import wandb\nwandb.init(nonsense=1)")
    outcome = attempts.run(script)
    assert outcome.code == 1
    assert "init() got an unexpected keyword argument 'nonsense'" in outcome.err


def test_the_configuration_may_be_set_again(attempts: Attempts) -> None:
    """What the server has of it, when the run goes on."""
    text = (
        "import wandb\nconfig = wandb.init('p').config\n"
        "try:\n    print(config._sanitize('begun', 2))\n"
        "except ValueError as error:\n    print(error)"
    )
    script = attempts.script(text)
    printed = [attempts.run(script).out for _ in range(2)]
    assert printed == ["changed\n", "('begun', 2)\n"]


def test_what_mlflow_begins_by_itself_goes_on_too(attempts: Attempts) -> None:
    """It calls its own function, which lies in another module."""
    assert asked(attempts, "import mlflow\nmlflow.active_run()") == [None, "first"]


def test_parameters_keep_their_first_values(attempts: Attempts) -> None:
    """A time that is one is no error in the second attempt; what is new is logged."""
    text = (
        "import mlflow, os, time\nmlflow.start_run()\n"
        "print(mlflow.log_param('begun', time.time()) > 0)\n"
        "more = {'later': 1} if os.path.exists('params.json') else {}\n"
        "mlflow.log_params({'from': time.time(), **more})"
    )
    assert asked(attempts, text) == [None, "first"]
    kept = json.loads((attempts.directory / "params.json").read_text())
    assert set(kept) == {"begun", "from", "later"}


def test_errors_of_parameters_are_the_scripts(attempts: Attempts) -> None:
    """One that changes in the attempt that began the run."""
    text = (
        "import mlflow\nmlflow.start_run()\nfor n in (1, 2): mlflow.log_param('n', n)"
    )
    outcome = attempts.run(attempts.script(text))
    assert outcome.code == 1
    assert "changing a parameter is not allowed" in outcome.err
