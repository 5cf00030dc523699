"""The rules of the remote tier: who writes, what is sent, kept and gone on from."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.remote.remote_tier import (
    CLAIMS,
    SEAL,
    SNAPSHOTS,
    Claim,
    RemoteName,
    SealedSnapshot,
    SnapshotFacts,
    Standing,
    chains,
    digest_of,
    doomed,
    next_claim,
    part_name,
    standing_of,
    to_send,
    useless_claims,
)

TOKENS = ("0" * 16, "a" * 16, "f" * 16)
FIRST, SECOND = Claim(1, TOKENS[0]), Claim(2, TOKENS[1])


def facts(
    serial: int, *, step: int | None = None, fit: int = 0, done: bool = False
) -> SnapshotFacts:
    """Of a snapshot."""
    return SnapshotFacts(
        serial=serial,
        step=10 * serial if step is None else step,
        fit=fit,
        fit_done=done,
        tensors_hash=f"sha256:{serial}-{fit}-{done}",
    )


def sealed(claim: Claim, one: SnapshotFacts) -> SealedSnapshot:
    """The same in the remote tier."""
    return SealedSnapshot(name=RemoteName(claim, one.serial, one.step), facts=one)


def standing(*found: SealedSnapshot, claims: tuple[Claim, ...] = ()) -> Standing:
    """A tier with these."""
    return Standing(claims=claims, parts={one.name: {SEAL: 1} for one in found})


claims = st.builds(Claim, st.integers(1, 5), st.sampled_from(TOKENS))


def snapshot(claim: Claim, serial: int, fit: int, done: bool) -> SealedSnapshot:  # noqa: FBT001  # drawn
    """One in the remote tier."""
    return sealed(claim, facts(serial, fit=fit, done=done))


snapshots = st.builds(
    snapshot,
    claims,
    st.integers(1, 12),
    st.integers(0, 2),
    st.booleans(),
)
tiers = st.lists(snapshots, max_size=15, unique_by=lambda one: one.name)


@given(claims, st.integers(1, 10**6), st.integers(0, 10**12))
def test_names_are_read_back_and_sort_by_age(
    claim: Claim, serial: int, step: int
) -> None:
    """Claim first, then serial: never the step, never a time."""
    name = RemoteName(claim, serial, step)
    assert RemoteName.of(name.name) == name
    assert Claim.of(claim.name) == claim
    assert RemoteName(claim, serial, step) < RemoteName(claim, serial + 1, 0)
    assert name < RemoteName(Claim(claim.number + 1, TOKENS[0]), 0, 0)


def test_other_names_are_none_of_ours() -> None:
    """They are left where they are."""
    assert Claim.of("1-x") is None
    assert RemoteName.of("x") is None
    assert RemoteName.of("x.000001-000000000001") is None
    assert digest_of("seal.json") is None
    assert digest_of(part_name(3, "0" * 64)) == "0" * 64
    sizes = {
        f"{CLAIMS}/x.json": 1,
        f"{SNAPSHOTS}/x/y": 1,
        "else/000001-0000000000000000.json": 1,
    }
    assert standing_of(sizes) == Standing()
    assert Standing().highest is None
    assert Standing().fenced(FIRST) is None


@given(tiers, st.lists(claims, max_size=4, unique=True))
def test_a_listing_tells_the_standing(
    found: list[SealedSnapshot], made: list[Claim]
) -> None:
    """What is listed by name is what stands there."""
    sizes = {f"{CLAIMS}/{claim.name}.json": 9 for claim in made}
    sizes |= {f"{SNAPSHOTS}/{one.name.name}/{SEAL}": 1 for one in found}
    sizes[f"{SNAPSHOTS}/{RemoteName(FIRST, 99, 1).name}/00000-x"] = 5
    there = standing_of(sizes)
    assert there.claims == tuple(sorted(made))
    assert there.sealed == sorted((one.name for one in found), reverse=True)


@given(st.lists(claims, unique=True))
def test_a_new_claim_is_above_all(made: list[Claim]) -> None:
    """Whoever held one before is fenced by it, and it by none of them."""
    claim = next_claim(made, TOKENS[0])
    there = Standing(claims=(*made, claim))
    assert there.fenced(claim) is None
    assert all(there.fenced(one) == claim for one in made)


@given(st.lists(claims, unique=True))
def test_of_two_that_claim_at_once_one_is_fenced(made: list[Claim]) -> None:
    """The same number, two tokens: both see both, and one of them stays."""
    one, other = next_claim(made, TOKENS[0]), next_claim(made, TOKENS[2])
    there = Standing(claims=(*made, one, other))
    assert (there.fenced(one), there.fenced(other)) == (other, None)


@given(tiers)
def test_a_chain_has_all_ends_that_it_needs(found: list[SealedSnapshot]) -> None:
    """Of each call of fit before it, none younger than itself; the youngest is first."""
    best = chains(found)
    for chain in best:
        assert [end.facts.fit for end in chain.ends] == list(
            range(chain.newest.facts.fit)
        )
        assert all(end.facts.fit_done for end in chain.ends)
        assert all(end.name < chain.newest.name for end in chain.ends)
        assert chain.all == (*chain.ends, chain.newest)
    assert best == sorted(best, key=lambda chain: chain.newest.name, reverse=True)


def test_the_higher_claim_counts_though_its_steps_are_fewer() -> None:
    """A machine that was thought lost, and went on, is not gone on from."""
    lost, ours = sealed(FIRST, facts(50)), sealed(SECOND, facts(40))
    assert [one.newest for one in chains([lost, ours])] == [ours, lost]


def test_a_number_of_strangers_is_not_counted_up_to() -> None:
    """Of so many calls of ``fit`` no ends are there: the answer takes no time."""
    assert chains([sealed(FIRST, facts(1, fit=10**18))]) == []


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=10), tiers)
def test_what_is_sent_makes_the_newest_a_place_to_go_on_from(
    local: list[tuple[int, bool]], found: list[SealedSnapshot]
) -> None:
    """The ends that are on disk come first, the newest last; nothing is sent twice."""
    disk = [facts(n, fit=fit, done=done) for n, (fit, done) in enumerate(local, 1)]
    there = {one.facts.same for one in found}
    sent = to_send(disk, found)
    assert not there & {one.same for one in sent}
    if not disk:
        assert sent == []
        return
    newest = disk[-1]
    assert newest.same in there or sent[-1] == newest
    needed = {
        fit
        for fit in range(newest.fit)
        if any(o.fit_done and o.fit == fit for o in disk)
    }
    have = {one.fit for one in [*sent, *(o.facts for o in found)] if one.fit_done}
    assert needed <= have
    assert to_send(disk, [*found, *(sealed(SECOND, one) for one in sent)]) == []


@given(tiers, claims, st.integers(0, 3))
def test_pruning_keeps_what_a_new_machine_goes_on_from(
    found: list[SealedSnapshot], claim: Claim, keep: int
) -> None:
    """The best places stay as they are; nothing of a higher claim is touched."""
    removed = set(doomed(standing(*found), found, claim=claim, keep=keep))
    left = [one for one in found if one.name not in removed]
    assert chains(left)[: max(keep, 1)] == chains(found)[: max(keep, 1)]
    assert all(name.claim <= claim for name in removed)


@given(tiers, claims)
def test_what_was_turned_away_from_goes(
    found: list[SealedSnapshot], claim: Claim
) -> None:
    """Even where it is the newest: nobody else may go on from it."""
    turned = {one.name.local for one in found[:2]}
    removed = doomed(standing(*found), found, claim=claim, keep=2, abandoned=turned)
    assert set(removed) >= {
        one.name
        for one in found
        if one.name.local in turned and one.name.claim <= claim
    }


def test_what_is_being_sent_stays_and_what_nobody_finishes_goes() -> None:
    """Parts without a seal: younger than the newest whole one they may be ours."""
    whole = sealed(SECOND, facts(5))
    ours, left = RemoteName(SECOND, 6, 60), RemoteName(FIRST, 9, 90)
    there = Standing(parts={whole.name: {SEAL: 1}, ours: {"x": 1}, left: {"x": 1}})
    assert doomed(there, [whole], claim=SECOND, keep=1) == [left]
    assert doomed(there, [], claim=SECOND, keep=1) == []


def test_claims_without_a_snapshot_go() -> None:
    """Not ours, not the higher ones, and none whose snapshots are kept."""
    there = standing(
        sealed(FIRST, facts(1)), claims=(FIRST, SECOND, Claim(3, TOKENS[0]))
    )
    assert useless_claims(there, claim=Claim(3, TOKENS[0])) == [SECOND]
