"""What two runs of one script left in their snapshots, side by side: JSON on standard output.

Asked for by ``certify``: ``python -m trainers.state.run_comparison ONE OTHER``, each a
directory of snapshots. Of each the end of every ``fit`` is compared, and the newest.
"""

import json
import sys
from pathlib import Path

from supervisor.wire.snapshots.manifest import DURABLE
from trainers.snapshots.durable_store import (
    DamagedError,
    Snapshot,
    SnapshotEntry,
    describe,
    entries_in,
    load,
)
from trainers.snapshots.run_progress import LOOP
from trainers.snapshots.tensor_image import of_array
from trainers.state.state_comparison import compare

TRACED = "hidden.traced"
"""What a restart would trace functions with: a last attempt that has no step left to do
traces none. What is traced otherwise shows in what it computes."""
Place = tuple[int, int]
"""A call of ``fit``, from 0, and the steps of the run that were done."""


def ends(directory: Path) -> dict[Place, SnapshotEntry]:
    """The snapshots to compare, by where they were taken. Raises DamagedError."""
    found: dict[Place, SnapshotEntry] = {}
    for index, entry in enumerate(entries_in(directory, DURABLE)):
        manifest = describe(entry, job=None)
        if manifest.fit_done or index == 0:
            found.setdefault((manifest.fit, manifest.step), entry)
    return found


def _is_of_loop(entry: SnapshotEntry) -> bool:
    return LOOP in describe(entry, job=None).state


def compared(one: Snapshot, other: Snapshot) -> dict[str, object]:
    """How many tensors there are, and the names of what differs."""
    tensors = [of_array(name, value) for name, value in other.tensors.items()]
    found = compare(one, other.manifest.state, tensors)
    others = [name for name in found.others if not name.startswith(TRACED)]
    return {"tensors": found.tensors, "differ": [*found.variables, *others]}


def compare_runs(one: Path, other: Path) -> dict[str, object]:
    """``fits``: by number; ``apart``: those that only one of the runs came to, or that
    ended at another step. Raises DamagedError."""
    ours, theirs = ends(one), ends(other)
    fits = {
        str(fit): compared(
            load(ours[fit, step], job=None), load(theirs[fit, step], job=None)
        )
        for fit, step in sorted(ours.keys() & theirs.keys())
    }
    alone = [
        (place, {**ours, **theirs}[place]) for place in ours.keys() ^ theirs.keys()
    ]
    # That of a loop of the script's own is of whatever step it was taken at.
    counted = [fit for (fit, _), entry in alone if not _is_of_loop(entry)]
    apart = sorted(set(counted))
    return {"fits": fits, "apart": apart}


def main() -> int:
    """Compare the two directories that are named."""
    one, other = map(Path, sys.argv[1:])
    try:
        found = compare_runs(one, other)
    except (DamagedError, OSError) as error:
        sys.stderr.write(f"the snapshots cannot be compared: {error}\n")
        return 1
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
