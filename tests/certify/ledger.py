"""The ledger of sample ids: which were trained on, and whose step's effect survived.

Each step of each attempt wrote a line ``{"attempt", "model", "fit", "epoch", "from",
"to", "ids"}``: it took the model from ``from`` steps to ``to``. A line that does not
begin where the one before ended tells of a restore: what led to that step then is the
past of an earlier attempt, and nothing that went beyond it.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.certify.table import ONCE, CertifyRow

Line = dict[str, Any]
Epochs = dict[tuple[int, int, int], Counter[int]]


def read(path: Path) -> list[Line]:
    """The lines in the order in which they were written."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def surviving(lines: list[Line]) -> list[Line]:
    """The lines whose effect is in the final models, and nothing undone."""
    models = sorted({int(line["model"]) for line in lines})
    return [line for model in models for line in _past(lines, model)]


def _past(lines: list[Line], model: int) -> list[Line]:
    """What led to the final state of ``model``, step by step."""
    earlier: list[list[Line]] = []
    past: list[Line] = []
    attempt = None
    for line in lines:
        if line["model"] != model:
            continue
        if line["attempt"] != attempt:
            attempt = line["attempt"]
            earlier.append(past)
            past = []
        if line["from"] != _end(past):  # it may have gone back in its process
            earlier.append(past)
            past = _until(earlier, int(line["from"]))
        past = [*past, line]
    return past


def _end(past: list[Line]) -> int:
    return int(past[-1]["to"]) if past else 0


def _until(earlier: list[list[Line]], step: int) -> list[Line]:
    """The newest past that went to ``step``, cut there."""
    for past in reversed(earlier):
        if _end(past) >= step:
            return [line for line in past if line["to"] <= step]
    return []


def by_epoch(lines: list[Line]) -> Epochs:
    """How often each id was seen in each epoch: (model, fit, epoch) → id → count."""
    found: defaultdict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    for line in lines:
        found[line["model"], line["fit"], line["epoch"]].update(line["ids"])
    return dict(found)


def problems(
    row: CertifyRow, lines: list[Line], *, whole: list[Line], seen: Any
) -> list[str]:
    """What is wrong with the ledger of a killed run; ``whole``: the undisturbed one's.

    ``seen``: for each model how often the final model itself counted each id.
    """
    found = inconsistencies(row, lines, seen=seen)
    epochs, expected = by_epoch(surviving(lines)), by_epoch(whole)
    if set(epochs) != set(expected):
        found.append(f"epochs {sorted(epochs)} instead of {sorted(expected)}")
    if row.ledger == ONCE:
        once = Counter(range(row.samples))
        found += [f"{k}: not each id once" for k, n in epochs.items() if n != once]
    else:
        found += [
            f"{key}: other ids than undisturbed"
            for key in sorted(set(epochs) & set(expected))
            if epochs[key] != expected[key]
        ]
    return found


def inconsistencies(row: CertifyRow, lines: list[Line], *, seen: Any) -> list[str]:
    """Steps that are missing, or that the final model counted otherwise."""
    kept = surviving(lines)
    return [*_gaps(kept), *([] if row.rewinds else _sums(kept, seen))]


def _gaps(kept: list[Line]) -> list[str]:
    """Every step of a model begins where the one before ended."""
    at: dict[int, int] = {}
    found: list[str] = []
    for line in kept:
        before = at.get(line["model"], 0)
        if line["from"] != before:
            found.append(f"step {before} is followed by {line['from']}")
        at[line["model"]] = line["to"]
    return found


def _sums(kept: list[Line], seen: Any) -> list[str]:
    """The model's own count is the sum of what survived."""
    found: list[str] = []
    for model, counts in enumerate(seen):
        summed: Counter[int] = Counter()
        for line in kept:
            if line["model"] == model:
                summed.update(line["ids"])
        if any(summed[i] != count for i, count in enumerate(counts)):
            found.append(f"model {model} did not count what the lines say")
    return found


def replayed(lines: list[Line]) -> int:
    """Steps whose effect was lost and that were done again."""
    return _steps(lines) - _steps(surviving(lines))


def _steps(lines: list[Line]) -> int:
    return sum(int(line["to"]) - int(line["from"]) for line in lines)
