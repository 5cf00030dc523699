"""Which snapshot a run goes on from."""

from dataclasses import dataclass, field

from trainers.snapshot import (
    ABANDONED,
    QUARANTINE,
    DamagedError,
    Entry,
    Snapshot,
    Store,
)


@dataclass(slots=True)
class Plan:
    """Where to go on, and what was found on the way there."""

    newest: Snapshot | None = None
    """The snapshot to go on from; None: from the beginning."""
    finished: dict[int, Snapshot] = field(default_factory=dict)
    """The end state of each earlier call of ``fit``."""
    quarantined: list[dict[str, str]] = field(default_factory=list)
    abandoned: int = 0
    """Whole ones that were not to be used (``restore_before_step``)."""

    @property
    def names(self) -> frozenset[str]:
        """The snapshots in use, never to be pruned."""
        used = [*self.finished.values(), *([self.newest] if self.newest else [])]
        return frozenset(snapshot.entry.name for snapshot in used)


def choose(store: Store, *, before_step: int | None) -> Plan:
    """The youngest whole snapshot whose earlier ``fit`` calls have whole ends too.

    DamagedError ones are moved to ``quarantine/`` on the way; whole ones of ``before_step``
    or later to ``abandoned/``, so that no later attempt goes on from them.
    """
    plan = Plan()
    whole: list[Snapshot] = []
    for entry in store.entries():
        if before_step is not None and entry.step >= before_step:
            store.set_aside(entry, ABANDONED)
            plan.abandoned += 1
            continue
        snapshot = _verified(store, entry, plan)
        if snapshot is not None:
            whole.append(snapshot)
    ends: dict[int, Snapshot] = {}
    for snapshot in whole:
        if snapshot.manifest.fit_done:
            ends.setdefault(snapshot.manifest.fit, snapshot)
    for snapshot in whole:
        fit = snapshot.manifest.fit
        needed = range(fit + 1 if snapshot.manifest.fit_done else fit)
        if all(number in ends for number in needed):
            plan.newest = snapshot
            plan.finished = {number: ends[number] for number in needed}
            return plan
    return plan


def _verified(store: Store, entry: Entry, plan: Plan) -> Snapshot | None:
    try:
        return store.load(entry)
    except DamagedError as damage:
        plan.quarantined.append({"snapshot": entry.name, "because": str(damage)})
        store.set_aside(entry, QUARANTINE)
        return None
