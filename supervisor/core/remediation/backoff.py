"""How long to wait before the next attempt."""

from dataclasses import dataclass
from hashlib import blake2b

from tenacity import RetryCallState, Retrying, wait_exponential


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
        state = RetryCallState(Retrying(), fn=None, args=(), kwargs={})
        state.attempt_number = max(failures, 1)
        whole = wait_exponential(multiplier=self.first_seconds, max=self.most_seconds)(
            state
        )
        digest = blake2b(f"{key}/{failures}".encode(), digest_size=4).digest()
        share = int.from_bytes(digest) / 2**32
        return whole * (1.0 - self.jitter * share)
