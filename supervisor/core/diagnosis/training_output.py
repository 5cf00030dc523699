"""Progress and losses, as the last lines of a training log show them.

Forms: Keras' bar (``17/100 [===>``, ``17/100 ━━``), Keras with ``verbose=2``
(``8/8 - 0s``), ``Epoch 3/10``, tqdm (``80/4000 [00:26<18:58``), and what people print
themselves (``step 12``, ``epoch: 3``, ``loss = 0.3``, ``{'loss': 0.3}``).
"""

import re
from dataclasses import dataclass

_PROGRESS = re.compile(
    r"\b\d+/(?:\d+|Unknown)(?=\s+(?:\[|[━╸╺]|-\s+\d|\d+m?s\b)|:|\s*\[\d\d:)"
    r"|\b[Ee]poch\W{0,3}\d+(?:/\d+)?|\b(?:global_)?[Ss]tep\W{1,6}\d+"
    r"|\b[Ii]ter(?:ation)?\W{1,6}\d+|\bbatch\W{1,3}\d+"
)
_LOSS = re.compile(
    r"(?P<name>\b\w*[Ll]oss)['\"]?\s*(?:,\s*[Vv]alue\s*)?(?:[:=]|\bis\b)\s*['\"]?"
    r"(?:tensor\()?"
    r"(?P<value>[-+]?(?:nan|NaN|NAN|inf(?:inity)?|Inf)\b|[-+]?\d[\d.]*(?:e[-+]?\d+)?)"
)
_PARTS = re.compile(r"[\r\x08]+")
KEPT = 400


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign that training goes on: ``80/4000``, ``Epoch 3/10``."""

    line: int
    token: str


@dataclass(frozen=True, slots=True)
class Loss:
    """The last value of a loss that was printed, and the line of it."""

    line: int
    name: str
    value: str
    text: str

    @property
    def finite(self) -> bool:
        """Whether it is a number."""
        return self.value[-1:].isdigit() or self.value[-1:] == "."


def progress_in(lines: list[tuple[int, str]]) -> tuple[Progress, ...]:
    """The signs of progress in ``lines`` (number, text), in order; the last ones."""
    found: list[Progress] = []
    for number, text in lines:
        tokens = [match.group() for match in _PROGRESS.finditer(text)]
        found.extend(Progress(number, token) for token in tokens[-20:])
    return tuple(found[-KEPT:])


def losses_in(lines: list[tuple[int, str]]) -> tuple[Loss, ...]:
    """The last value of each loss that ``lines`` (number, text) show, by name."""
    last: dict[str, Loss] = {}
    for number, text in lines:
        shown = _PARTS.split(text.rstrip("\r\x08"))[-1]
        for match in _LOSS.finditer(shown):
            value = Loss(number, match["name"], match["value"], shown.strip()[:300])
            last[value.name] = value
    return tuple(sorted(last.values(), key=lambda each: (each.line, each.name)))
