"""Memory that was asked for to be faster, and not given, out of a log that grows.

cuDNN and XLA try several algorithms for an operation (autotuning), and many take a
workspace. Where the allocator has no room for it they do without, and it warns (its first
ten times in a process; ``bfc_allocator.cc``): "Allocator (GPU_0_bfc) ran out of memory
trying to allocate 2.20GiB with freed_by_count=0. The caller indicates that this is not a
failure, but may mean that there could be performance gains if more memory were available."
"""

import re
from dataclasses import dataclass

from supervisor.core.text.units import parse_size

_SIGN = b"not a failure"
_REQUEST = re.compile(
    rb"Allocator \(GPU[^)\s]*\) ran out of memory trying to allocate"
    rb" (?P<size>[1-9]\d{0,8}(?:\.\d{1,3})?(?:[KMGT]iB|B))[^\n]{0,80}?"
    rb"caller indicates that this is not a failure"
)
_KEPT = 512
"""Bytes of the end that are kept: a request may be read in two pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRequests:
    """Those of a GPU that were not granted, as far as the log tells."""

    count: int = 0
    largest_bytes: int = 0


class WorkspaceReader:
    """Reads one log in pieces of any size."""

    def __init__(self) -> None:
        self.found = WorkspaceRequests()
        self._end = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        text = self._end + data
        at = 0
        if _SIGN in text:
            for match in _REQUEST.finditer(text):
                self._take(match)
                at = match.end()
        self._end = text[max(at, len(text) - _KEPT) :]

    def _take(self, match: re.Match[bytes]) -> None:
        size = parse_size(match["size"].decode())
        self.found = WorkspaceRequests(
            count=self.found.count + 1,
            largest_bytes=max(self.found.largest_bytes, size),
        )
