"""How often a run fails, as far as its past tells."""

PRIOR_FAILURES = 0.1
PRIOR_SECONDS = 0.1 * 86400.0
"""What is believed before anything was seen: a failure a day, with the weight of a
tenth of one. One failure in the first minutes already counts for more than that."""


def mean_seconds_between_failures(*, seconds: float, failures: int) -> float:
    """Mean time from one failure to the next, in seconds, always positive.

    ``seconds``: how long the run's attempts lasted together; ``failures``: how many of
    them failed. The mean of the posterior's rate, inverted, for a Poisson process with
    a gamma prior (Gelman et al., Bayesian Data Analysis, 3rd ed., 2.6).
    """
    return (PRIOR_SECONDS + seconds) / (PRIOR_FAILURES + failures)
