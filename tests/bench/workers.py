"""What a group of workers would lose to restarts, from the figures of one: a simulation.

``python -m tests.bench.workers [--workers 8,64,1000] [--restart SECONDS --restart-q3 SECONDS]
[--mtbf HOURS] [--interval SECONDS] [--copy SECONDS] [--days 30]``

Trainwarden supervises one process (docs/multi-worker.md: how several would be). A group goes
on only when its slowest worker is back, and any worker's failure stops all. So of N workers
a failure comes N times as often, and a restart is the longest of N: drawn from a log-normal
distribution that has the median and the upper quartile of one (``make bench-restart``).
Failures come at random, each worker's with the mean time between failures ``--mtbf``; one
that comes during a restart begins it anew. A snapshot every ``--interval`` seconds stops
training for ``--copy``; what was trained since the last is lost.

Failures: 419 unexpected interruptions of 16,384 GPUs in 54 days (The Llama 3 Herd of Models,
2024, section 3.3.4) are one in some 50,700 hours of a GPU, 6,300 of a worker of eight.
Restarts: the median of a small CNN on two cores (docs/resume.md), cold; its upper quartile is
assumed. A large model takes longer: give your own.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, median, quantiles

HOUR, DAY = 3600.0, 86400.0
UPPER_QUARTILE = 0.6745
"""Of the standard normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFigures:
    """What is known of one worker, in seconds."""

    restart: float
    """Median, from its failure to its first step."""
    restart_q3: float
    between_failures: float
    interval: float
    """Of training, from one snapshot to the next."""
    copy: float
    """How long a snapshot stops training."""

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of a restart."""
        return math.log(self.restart_q3 / self.restart) / UPPER_QUARTILE

    def restart_of_group(self, workers: int, draw: Callable[[], float]) -> float:
        """The longest of so many restarts; ``draw``: uniform in [0, 1).

        That the longest of N is below x has the probability of one to the power of N: one
        draw tells it, whatever N.
        """
        quantile = max(draw(), 1e-12) ** (1.0 / workers)
        deviation = _deviation(min(quantile, 1.0 - 1e-15))
        return self.restart * math.exp(self.spread * deviation)


def _deviation(quantile: float) -> float:
    """The standard normal deviate below which that part lies."""
    low, high = -9.0, 9.0
    for _ in range(60):
        middle = (low + high) / 2.0
        below = 0.5 * math.erfc(-middle / math.sqrt(2.0))
        low, high = (middle, high) if below < quantile else (low, middle)
    return (low + high) / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGroup:
    """What a stretch of training showed."""

    goodput: float
    """Part of the time that went into steps that were kept."""
    failures: int
    restarts: tuple[float, ...]
    """Seconds of each, those begun anew included."""
    lost: float
    """Seconds of training that were done again."""


def simulated(
    one: WorkerFigures, *, workers: int, seconds: float, rng: random.Random
) -> SimulatedGroup:
    """So many seconds of a group's time."""
    rate = workers / one.between_failures
    now = kept = lost = 0.0
    restarts: list[float] = []
    failures = 0
    while now < seconds:
        until_failure = min(rng.expovariate(rate), seconds - now)
        ends = now + until_failure >= seconds
        cycle = one.interval + one.copy
        whole = math.floor(until_failure / cycle)
        rest = min(until_failure - whole * cycle, one.interval)
        now += until_failure
        kept += whole * one.interval + (rest if ends else 0.0)
        if ends:
            break
        failures += 1
        lost += rest
        took = restarting(one, workers=workers, rate=rate, rng=rng)
        restarts.append(min(took, seconds - now))
        now += took
    return SimulatedGroup(
        goodput=kept / seconds, failures=failures, restarts=tuple(restarts), lost=lost
    )


def restarting(
    one: WorkerFigures, *, workers: int, rate: float, rng: random.Random
) -> float:
    """Seconds until all are back, those of tries that a further failure ended included."""
    took = 0.0
    while True:
        needs, fails = (
            one.restart_of_group(workers, rng.random),
            rng.expovariate(rate),
        )
        if needs <= fails:
            return took + needs
        took += fails


def line(workers: int, found: SimulatedGroup, *, days: float) -> str:
    """A row of the table."""
    if len(found.restarts) < 2:
        return f"{workers:>8} {found.failures / days:>14.2f} {'-':>20} {'-':>18} {found.goodput:>8.4f}"
    slowest = quantiles(found.restarts, n=20)[-1]
    middle, again = median(found.restarts), found.lost / found.failures
    return (
        f"{workers:>8} {found.failures / days:>14.2f} {middle:>9.1f} ({slowest:>6.1f})"
        f" {again:>18.1f} {found.goodput:>8.4f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,8,32,128,512,1000")
    parser.add_argument("--restart", type=float, default=19.8, help="seconds, median")
    parser.add_argument("--restart-q3", type=float, default=24.0, help="seconds")
    parser.add_argument("--mtbf", type=float, default=6300.0, help="hours of a worker")
    parser.add_argument("--interval", type=float, default=60.0, help="seconds")
    parser.add_argument("--copy", type=float, default=0.05, help="seconds")
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=20, help="stretches of each")
    asked = parser.parse_args()
    one = WorkerFigures(
        restart=asked.restart,
        restart_q3=asked.restart_q3,
        between_failures=asked.mtbf * HOUR,
        interval=asked.interval,
        copy=asked.copy,
    )
    print(
        f"{'workers':>8} {'failures a day':>14} {'restart, s (95 %)':>20}"
        f" {'done again, s each':>18} {'goodput':>8}"
    )
    for workers in map(int, asked.workers.split(",")):
        rng = random.Random(asked.seed)
        days = asked.days * asked.times
        found = [
            simulated(one, workers=workers, seconds=asked.days * DAY, rng=rng)
            for _ in range(asked.times)
        ]
        whole = SimulatedGroup(
            goodput=mean(each.goodput for each in found),
            failures=sum(each.failures for each in found),
            restarts=tuple(took for each in found for took in each.restarts),
            lost=sum(each.lost for each in found),
        )
        print(line(workers, whole, days=days))


if __name__ == "__main__":
    main()
