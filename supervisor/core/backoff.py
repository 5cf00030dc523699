"""How long to wait before the next attempt."""

from dataclasses import dataclass
from hashlib import blake2b


def doubled(first_seconds: float, *, times: int, most_seconds: float) -> float:
    """A wait that was doubled so many ``times``, up to the longest: truncated binary
    exponential back-off (IEEE 802.3, 4.2.3.2.5)."""
    return min(first_seconds * 2.0 ** min(times, 64), most_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """Doubling waits with a little jitter, so that a box does not restart in step."""

    first_seconds: float
    most_seconds: float
    jitter: float = 0.2
    """Share of the wait that varies."""

    def wait_seconds(self, *, failures: int, key: str) -> float:
        """The wait after ``failures`` in a row (from 1).

        The jitter comes from ``key`` and not from a generator, so that the same
        history gives the same decision.
        """
        whole = doubled(
            self.first_seconds,
            times=max(failures, 1) - 1,
            most_seconds=self.most_seconds,
        )
        digest = blake2b(f"{key}/{failures}".encode(), digest_size=4).digest()
        share = int.from_bytes(digest) / 2**32
        return whole * (1.0 - self.jitter * share)
