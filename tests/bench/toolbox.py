"""What each technique saves and costs, alone and in the best combination.

``make bench-toolbox``, or ``python -m tests.bench.toolbox [--only NAME,…] [--jit 0,1]``

Three models, a convolution network, a U-Net and a transformer, each with XLA off and on.
What ``run`` or a line of a script can do is measured by ``trainwarden advise`` (docs/
alternatives.md: processes of their own, from one start, the same batches, the allocator's
peak of a step); so are, as scripts of their own, ``gradients_in_slices`` and separable
blocks of ``trainers.toolbox``. Peak and step time are those of the row, ``of it`` their
part of the script's as it is, in the same run of ``advise`` (for scripts of their own,
which have one each: of the plain script's). At the end the best that ``advise`` finds where six
tenths of the plain peak are there, combinations among it. On a CPU, whose operations come
one after another, as those of a GPU do: each convolution of TensorFlow on a CPU takes a buffer
of fixed size, and peaks would tell how many happened to run at once.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("toolbox_trial.py")
VARIANTS = {
    "convolutions": (("separable blocks", ["--separable"]),),
    "unet": (("separable blocks", ["--separable"]),),
    "transformer": (),
}
"""Of each model: scripts that differ from the plain one."""
SLICES = ("gradients_in_slices, 4", ["--slices", "4"])
LIMIT_PART = 0.6
"""Of the peak of the model as it is: under so much the best combination is looked for."""
COMBINED = ("slices", "precision", "recompute")
"""What is combined then: what saves memory and is not another computation."""
MIB = 2**20
HEAD = f"{'':44} {'peak':>9} {'of it':>6} {'step':>8} {'of it':>6}  numbers"


@dataclass(frozen=True)
class ToolboxRow:
    """One technique."""

    title: str
    peak: int | None
    seconds: float | None
    said: str
    ratio: float | None = None
    """Of the step time, step by step; None: of another script, or not measured."""

    def line(self, plain: "ToolboxRow") -> str:
        """As printed, beside the model as it is."""
        if self.peak is None or self.seconds is None or not plain.peak:
            return f"{self.title:44} {'-':>9} {'-':>6} {'-':>8} {'-':>6}  {self.said}"
        share = self.peak / plain.peak
        slower = self.ratio or self.seconds / (plain.seconds or self.seconds)
        return (
            f"{self.title:44} {self.peak / MIB:5.0f} MiB {share:6.2f}"
            f" {1000 * self.seconds:5.0f} ms {slower:6.2f}  {self.said}"
        )


def advised(state: Path, given: list[str], *, jit: bool) -> Any:
    """What ``advise`` answers to the arguments ``given``; None: nothing."""
    spec = state / f"jit-{jit}.toml"
    spec.write_text(
        f"[compute]\njit = {str(jit).lower()}\n"
        '[environment]\nTF_NUM_INTEROP_THREADS = "1"\n'
    )
    command = [
        *[str(Path(sys.executable).parent / "trainwarden"), "advise", "--json"],
        *["--state-dir", str(state), "--spec", str(spec), *given],
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        print(f"{done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return json.loads(done.stdout)


def rows(name: str, state: Path, *, jit: bool) -> Iterator[ToolboxRow]:
    """All of one model, as it is first."""
    answer = advised(state, [str(SCRIPT), name], jit=jit)
    if answer is None:
        return
    plain = None
    for trial in answer["trials"]:
        row = _of_trial(trial)
        plain = plain or row
        yield row
    for title, arguments in (SLICES, *VARIANTS[name]):
        given = ["--only", "allocator", str(SCRIPT), name, *arguments]
        other = advised(state, given, jit=jit)
        if other is not None:
            one = _of_trial(other["trials"][0])
            yield ToolboxRow(title, one.peak, one.seconds, "a script of its own")
    if plain is not None and plain.peak is not None:
        yield best_row(name, state, limit=int(LIMIT_PART * plain.peak), jit=jit)


def best_row(name: str, state: Path, *, limit: int, jit: bool) -> ToolboxRow:
    """What ``advise`` ends with where only ``limit`` bytes are there."""
    asked = [word for one in COMBINED for word in ("--only", one)]
    given = ["--cpu-memory", f"{limit // MIB}MiB", *asked, str(SCRIPT), name]
    answer = advised(state, given, jit=jit)
    under = f"under {limit // MIB} MiB"
    if answer is None or answer["best"] is None:
        return ToolboxRow(f"best {under}", None, None, "nothing fits")
    title = answer["best"]["title"]
    best = next(one for one in answer["trials"] if one["title"] == title)
    return replace(_of_trial(best), title=f"best {under}: {title}")


def _of_trial(trial: dict[str, Any]) -> ToolboxRow:
    measured = trial["outcome"] == "measured"
    return ToolboxRow(
        title=trial["title"],
        peak=trial["peak_bytes"],
        seconds=trial["step_seconds"],
        said=trial["numbers"] if measured else f"{trial['outcome']} {trial['because']}",
        ratio=trial["step_ratio"],
    )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(VARIANTS))
    parser.add_argument("--jit", default="0,1")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="toolbox") as kept:
        for name in asked.only.split(","):
            for jit in asked.jit.split(","):
                print(f"{name}, XLA {'on' if jit == '1' else 'off'}\n{HEAD}")
                plain = None
                for row in rows(name, Path(kept), jit=jit == "1"):
                    plain = plain or row
                    print(row.line(plain), flush=True)
                print()


if __name__ == "__main__":
    main()
