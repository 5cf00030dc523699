"""Every part of a snapshot forgotten in turn as a run is restored: does the proof see it?

A run is killed once; from its snapshots it is resumed again and again, each time without
one variable, random state, attribute of a callback, counter, place in the data, or state
that is hidden in globals, classes, closures and layers; of a loop of the script's own
without one variable or event of its record. Caught: the resume was disproved, and the
process ended as it should. Harmless: proved, and the run ends to the bit as undisturbed.
The rest was missed, or crashed, which shows nothing of the proof; there must be neither.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.files import write_json
from supervisor.wire.messages.directive import EXIT_DRAINED
from supervisor.wire.snapshots.proof import Proof
from tests.support import zygote as zygotes
from tests.support.attempts import Attempts
from tests.support.zygote import Zygote

SCRIPTS = Path(__file__).parent / "scripts"
CAUGHT, HARMLESS = "caught", "harmless"
Mutation = list[Any]


@dataclass(frozen=True)
class Trained:
    """What is trained, killed, and resumed with one thing forgotten."""

    name: str
    script: Path = SCRIPTS / "mutated.py"
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


def _fit(optimizer: str, data: str) -> Trained:
    """With the state that each optimizer, and each kind of data, can have."""
    return Trained(
        f"{optimizer}, {data}", environment={"OPTIMIZER": optimizer, "DATA": data}
    )


FIT = _fit("adam", "arrays")
TRAINED = (
    FIT,
    _fit("sgd", "pipeline"),
    _fit("rmsprop", "dataset"),
    Trained("loop", SCRIPTS / "mutated_loop.py"),
)


@dataclass
class Mutations:
    """The attempts of one killed run."""

    zygote: Zygote
    directory: Path
    trained: Trained = FIT
    count: int = 0

    def run(
        self, snapshots: Path, *, prove: bool, **more: str
    ) -> tuple[int, str | None]:
        """An attempt: its exit code, and what came of its proof."""
        self.count += 1
        options = {
            "snapshot_every_steps": 6,
            "snapshots_kept": 2,
            "prove": prove,
            "rewind": ("out",),  # without it no loop is recorded
        }
        attempts = Attempts(self.directory, options, count=self.count)
        directive = attempts.directive(
            self.trained.script, snapshot_directory=str(snapshots)
        )
        root = Path(directive.attempt_directory)
        root.mkdir(parents=True)
        write_json(root / "directive.json", directive.to_json())
        code = self.zygote.run(
            launch=str(root / "directive.json"),
            cwd=str(self.directory),
            environment={**self.trained.environment, **more},
            output=str(root / "output.log"),
        )
        records = EventReader(root / "events.jsonl").poll()
        told = [r.fields["result"] for r in records if r.kind == RecordKind.PROOF]
        return code, told[-1] if told else None

    def result(self) -> Any:
        """What the last attempt left; it is gone then."""
        path = self.directory / "result.json"
        found = path.read_text()
        path.unlink()
        return json.loads(found)

    def begin(self) -> list[Mutation]:
        """Run undisturbed, and kill another run; what can be forgotten of it."""
        assert self.run(self.directory / "whole", prove=False)[0] == 0
        self.expected = self.result()
        killed = self.run(self.directory / "killed", prove=False, DIE="27")
        assert killed[0] == -signal.SIGKILL, killed
        again = self.resume(None, MUTATE='"list"')
        assert again == HARMLESS, again
        found: list[Mutation] = json.loads(
            (self.directory / "mutations.json").read_text()
        )
        return found

    def resume(self, mutation: Mutation | None, **more: str) -> str:
        """What becomes of a resume that forgets this."""
        snapshots = self.directory / f"snapshots-{self.count}"
        shutil.copytree(self.directory / "killed", snapshots)
        asked = {} if mutation is None else {"MUTATE": json.dumps(mutation)}
        code, proof = self.run(snapshots, prove=True, **asked, **more)
        shutil.rmtree(snapshots)
        if proof == Proof.DIFFERS and code == EXIT_DRAINED:
            return CAUGHT
        if code != 0:
            return f"CRASHED (exit code {code}, {proof})"
        if proof == Proof.PROVED and self.result() == self.expected:
            return HARMLESS
        return f"MISSED ({proof})"


def try_all(
    zygote: Zygote, directory: Path, *, trained: Trained = FIT, only: Sequence[str] = ()
) -> dict[str, str]:
    """What became of each mutation, by its name; ``only`` those that begin with
    these words."""
    directory.mkdir(parents=True, exist_ok=True)
    mutations = Mutations(zygote, directory, trained)
    found: dict[str, str] = {}
    for mutation in mutations.begin():
        name = " ".join(map(str, mutation))
        if not only or any(f"{name} ".startswith(f"{one} ") for one in only):
            found[name] = mutations.resume(mutation)
            print(f"{trained.name}: {name}: {found[name]}", flush=True)
    return found


def summary(found: Mapping[str, Sequence[str]]) -> int:
    """Print what came of all, by what was trained; the exit code."""
    for name, results in found.items():
        kinds = Counter(one.partition(" ")[0] for one in results)
        print(f"{name}: {len(results)} mutations: {dict(kinds)}")
    every = [one for results in found.values() for one in results]
    wrong = [one for one in every if one not in {CAUGHT, HARMLESS}]
    print(f"{len(every)} mutations, {len(wrong)} missed or crashed")
    return 1 if wrong or CAUGHT not in every else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="beginnings of names; all without")
    parser.add_argument(
        "--trained", choices=[one.name for one in TRAINED], help="only this"
    )
    asked = parser.parse_args()
    found: dict[str, list[str]] = {}
    with zygotes.zygote() as parent, tempfile.TemporaryDirectory() as scratch:
        for number, one in enumerate(TRAINED):
            if asked.trained not in {None, one.name}:
                continue
            place = Path(scratch) / str(number)
            results = try_all(parent, place, trained=one, only=asked.only)
            found[one.name] = [*results.values()]
    return summary(found)


if __name__ == "__main__":
    sys.exit(main())
