"""The answer of training about its memory: who holds what, on request or after an OOM."""

from dataclasses import dataclass
from typing import Any, Self

ASKED = "asked"
OUT_OF_MEMORY = "out_of_memory"

BATCH = "batch"
"""Kind of what is known by its size alone: an array of a batch, which whoever prefetches
it holds where no name leads to."""
MOST = 2000
"""Variables that are named in an answer, the largest of them."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the model or its optimizer, and where its value lies."""

    name: str
    """Such as ``model:dense/kernel`` or ``optimizer:adam/dense_kernel_momentum``."""
    bytes: int
    address: int | None
    """None: not known (without the native operations)."""


@dataclass(frozen=True, slots=True)
class HeldObject:
    """Arrays or tensors that one Python container keeps."""

    where: str
    """The container, as far as it can be named: ``Keeper.kept``, ``__main__.cache``."""
    kind: str
    """``tensor`` or ``array``: in the framework's memory, or in the host's; ``BATCH``."""
    count: int
    bytes: int
    example: str
    """One of them: ``float32 (128, 1024)``."""
    addresses: tuple[int, ...] = ()
    """Where tensors lie, as far as that is known."""


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """What training says of its memory."""

    reason: str
    """``asked`` or ``out_of_memory``."""
    step: int | None
    at: float
    """Seconds since 1970."""
    jit: bool | None
    variables: tuple[Variable, ...]
    kept: tuple[HeldObject, ...]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self | None:
        """The answer in ``value``; None for anything else, however strange."""
        try:
            return cls(
                reason=str(value["reason"]),
                step=None if value["step"] is None else int(value["step"]),
                at=float(value["at"]),
                jit=None if value["jit"] is None else bool(value["jit"]),
                variables=tuple(_variable(one) for one in _list(value["variables"])),
                kept=tuple(_kept(one) for one in _list(value["kept"])),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return []
    return value[:MOST]  # pyright: ignore[reportUnknownVariableType]  # JSON


def _variable(value: Any) -> Variable:
    address = value["address"]
    return Variable(
        name=str(value["name"])[:200],
        bytes=max(int(value["bytes"]), 0),
        address=None if address is None else int(address),
    )


def _kept(value: Any) -> HeldObject:
    return HeldObject(
        where=str(value["where"])[:200],
        kind=str(value["kind"])[:20],
        count=max(int(value["count"]), 0),
        bytes=max(int(value["bytes"]), 0),
        example=str(value["example"])[:200],
        addresses=tuple(map(int, _list(value.get("addresses")))),
    )
