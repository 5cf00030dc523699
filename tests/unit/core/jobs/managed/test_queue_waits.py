"""Waits in the queue: of each owner the longest."""

from supervisor.core.jobs.managed.queue_waits import QueueWaits


def test_the_longest_wait_of_each_owner() -> None:
    """Who waits since when; a job that left the queue and came back begins anew."""
    waits = QueueWaits().seen(["a", "b"], now=10.0, earlier={})
    waits = waits.seen(["a", "c"], now=15.0, earlier={})
    owners = {"a": "anna", "c": "anna"}
    assert waits.longest(owners, now=20.0) == {"anna": 10.0}
    waits = waits.seen(["b"], now=30.0, earlier={})
    assert waits.longest({"b": "ben"}, now=31.0) == {"ben": 1.0}


def test_a_wait_survives_the_daemon() -> None:
    """What the ledger tells of earlier waiting counts, of the jobs that it tells of."""
    waits = QueueWaits().seen(["a", "b"], now=10.0, earlier={"a": 600.0, "z": 9.0})
    owners = {"a": "anna", "b": "ben"}
    assert waits.longest(owners, now=12.0) == {"anna": 602.0, "ben": 2.0}
