"""Progress and losses, as the last lines of a training log show them.

Forms: Keras' bar (``17/100 [===>``, ``17/100 ━━``), Keras with ``verbose=2``
(``8/8 - 0s``), ``Epoch 3/10``, tqdm (``80/4000 [00:26<18:58``), and what people print
themselves (``step 12``, ``epoch: 3``, ``loss = 0.3``, ``{'loss': 0.3}``).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_PROGRESS = re.compile(
    r"\b\d+/(?:\d+|Unknown)(?=\s+(?:\[|[━╸╺]|-\s+\d|\d+m?s\b)|:|\s*\[\d\d:)"
    r"|\b[Ee]poch\W{0,3}\d+(?:[/.]\d+)?|\b(?:global_)?[Ss]tep\W{1,6}\d+"
    r"|\b[Ii]ter(?:ation)?\W{1,6}\d+|\bbatch\W{1,3}\d+"
    r"|\b[Ll]oss_\w+: \d[\d.]*"
)
_LOSS = re.compile(
    r"(?P<name>(?:\b(?:[Vv]al(?:id(?:ation)?)?|[Ee]val(?:uation)?|[Tt]est)[ /.-])?\b\w*[Ll]oss)"
    r"['\"]?\s*(?:,\s*[Vv]alue\s*)?(?:[:=]|\bis\b)\s*['\"]?"
    r"(?:tensor\()?"
    r"(?P<value>[-+]?(?:nan|NaN|NAN|inf(?:inity)?|Inf)\b|[-+]?\d[\d.]*(?:e[-+]?\d+)?)"
)
_OF_VALIDATION = re.compile(
    r"(?:val|valid|validation|eval|evaluation|test)[\W_]", re.IGNORECASE
)
"""Keras: ``val_loss``; Lightning: ``val/loss``, ``valid_loss``; transformers: ``eval_loss``."""
_PARTS = re.compile(r"[\r\x08]+")
KEPT = 400


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign that training goes on: ``80/4000``, ``Epoch 3/10``."""

    line: int
    token: str


LOST_SIGNS = (b"oss: nan", b"oss: inf", b"oss=nan", b"oss = nan", b"oss': nan")
"""How most programs print a loss that is no number: looked for in all of a long log."""
_AROUND = 2048
"""Bytes of a line before a sign that are read."""
_BEHIND = 300
"""... and behind it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The last value of a loss that was printed, and the line of it; where that is no
    number, the first line since which it has been none."""

    line: int
    name: str
    value: str
    text: str

    @property
    def finite(self) -> bool:
        """Whether it is a number."""
        return self.value[-1:].isdigit() or self.value[-1:] == "."

    @property
    def of_validation(self) -> bool:
        """Whether it was computed on data that nothing is trained with."""
        return _OF_VALIDATION.match(self.name) is not None

    @property
    def zero(self) -> bool:
        """Whether it is 0: as transformers prints a loss that is no number, too
        (``logging_nan_inf_filter``)."""
        return self.finite and not re.search("[1-9]", self.value)


def progress_in(lines: list[tuple[int, str]]) -> tuple[Progress, ...]:
    """The signs of progress in ``lines`` (number, text), in order; the last ones."""
    found: list[Progress] = []
    for number, text in lines:
        tokens = [match.group() for match in _PROGRESS.finditer(text)]
        found.extend(Progress(number, token) for token in tokens[-20:])
    return tuple(found[-KEPT:])


def trained_on(losses: Sequence[Loss]) -> Loss | None:
    """The loss of training that stayed a number where only those of validation did not;
    None: it was otherwise, or is not known."""
    lost = [one for one in losses if not one.finite]
    trained = [one for one in losses if not one.of_validation]
    told = all(one.finite and not one.zero for one in trained)
    if not (lost and trained and told):
        return None
    return next((one for one in trained if one.name == "loss"), trained[-1])


def losses_in(
    lines: list[tuple[int, str]], *, lost: Mapping[str, Loss] | None = None
) -> tuple[Loss, ...]:
    """The last value of each loss that ``lines`` (number, text) show, by name. ``lost``:
    those that were no number before them."""
    before, last = dict(lost or {}), dict[str, Loss]()
    for number, text in lines:
        shown = _PARTS.split(text.rstrip("\r\x08"))[-1]
        for match in _LOSS.finditer(shown):
            value = Loss(number, match["name"], match["value"], shown.strip()[:300])
            earlier = last.get(value.name) or before.get(value.name)
            still = earlier is not None and not (earlier.finite or value.finite)
            last[value.name] = earlier if still and earlier else value
    return tuple(sorted(last.values(), key=lambda each: (each.line, each.name)))


class LostLosses:
    """Where each loss ceased to be a number, as the blocks of a long log show it: by
    ``LOST_SIGNS``, and by what stands at the end of a block, not by every line."""

    def __init__(self, holds: Callable[[bytes, bytes], bool]) -> None:
        """``holds``: whether the first text holds the second."""
        self._holds = holds
        self.first: dict[str, Loss] = {}
        """By name: those that have been no number since."""

    def feed(self, block: bytes, first_line: int) -> None:
        """The next block, whose first line has this number."""
        for sign in LOST_SIGNS:
            if self._holds(block, sign):
                self._note(block, block.find(sign), first_line)
        if self.first:
            self._forget_recovered(block)

    def _note(self, block: bytes, at: int, first_line: int) -> None:
        start = max(block.rfind(b"\n", 0, at) + 1, at - _AROUND)
        end = block.find(b"\n", at, at + _BEHIND)
        text = block[start : at + _BEHIND if end < 0 else end].decode(errors="replace")
        for loss in losses_in([(first_line + block.count(b"\n", 0, at), text)]):
            known = self.first.get(loss.name, loss)
            if not loss.finite and known.line >= loss.line:
                self.first[loss.name] = loss

    def _forget_recovered(self, block: bytes) -> None:
        end = block[-_AROUND:].decode(errors="replace").splitlines()
        for loss in losses_in([(0, text) for text in end]):
            if loss.finite:
                self.first.pop(loss.name, None)
