"""Every part of a snapshot forgotten in turn as a run is restored: does the proof see it?

A run is killed once; from its snapshots it is resumed again and again, each time without
one variable, random state, attribute of a callback or counter. Caught: the resume was
disproved. Harmless: proved, and the run ends to the bit as undisturbed. The rest was
missed; there must be none.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.files import write_json
from supervisor.wire.proof import Proof
from tests.support import zygote as zygotes
from tests.support.attempts import Attempts
from tests.support.zygote import Zygote

SCRIPT = Path(__file__).parent / "scripts" / "mutated.py"
OPTIMIZERS = ("adam", "sgd", "rmsprop")
"""As the script makes them: with the state that each can have."""
Mutation = list[Any]


@dataclass
class Mutations:
    """The attempts of one killed run."""

    zygote: Zygote
    directory: Path
    optimizer: str = "adam"
    count: int = 0

    def run(
        self, snapshots: Path, *, prove: bool, **more: str
    ) -> tuple[int, str | None]:
        """An attempt: its exit code, and what came of its proof."""
        self.count += 1
        options = {"snapshot_every_steps": 6, "snapshots_kept": 2, "prove": prove}
        attempts = Attempts(self.directory, options, count=self.count)
        directive = attempts.directive(SCRIPT, snapshot_directory=str(snapshots))
        root = Path(directive.attempt_directory)
        root.mkdir(parents=True)
        write_json(root / "directive.json", directive.to_json())
        code = self.zygote.run(
            launch=str(root / "directive.json"),
            cwd=str(self.directory),
            environment={"OPTIMIZER": self.optimizer, **more},
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
        assert again == "harmless", again
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
        if proof == Proof.DIFFERS or (code != 0 and proof != Proof.PROVED):
            return "caught"
        if code == 0 and proof == Proof.PROVED and self.result() == self.expected:
            return "harmless"
        return f"MISSED (exit code {code}, {proof})"


def try_all(
    zygote: Zygote, directory: Path, *, optimizer: str, only: Sequence[str] = ()
) -> dict[str, str]:
    """What became of each mutation, by its name; ``only`` these kinds."""
    directory.mkdir(parents=True, exist_ok=True)
    mutations = Mutations(zygote, directory, optimizer=optimizer)
    found: dict[str, str] = {}
    for mutation in mutations.begin():
        name = " ".join(map(str, mutation))
        if not only or any(name.startswith(one) for one in only):
            found[name] = mutations.resume(mutation)
            print(f"{optimizer}: {name}: {found[name]}", flush=True)
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="beginnings of names; all without")
    asked = parser.parse_args()
    found: list[str] = []
    with zygotes.zygote() as parent, tempfile.TemporaryDirectory() as scratch:
        for optimizer in OPTIMIZERS:
            place = Path(scratch) / optimizer
            found += try_all(
                parent, place, optimizer=optimizer, only=asked.only
            ).values()
    missed = [one for one in found if one.startswith("MISSED")]
    counted = {kind: found.count(kind) for kind in ("caught", "harmless")}
    print(f"{len(found)} mutations: {counted}, {len(missed)} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
