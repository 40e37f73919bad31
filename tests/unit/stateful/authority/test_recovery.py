"""What a new term restores from claims and snapshots, and which claims it waits for."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from deployments.stateful.authority.fenced_writer import SupersededError
from deployments.stateful.authority.snapshots import cluster_stamp, has_stamp, snapshot_row
from deployments.stateful.protocol import (
    Claimed,
    ClaimPart,
    Hello,
    Key,
    Receipt,
    StateBatch,
    Version,
)
from tests.support.states import DictStore
from tests.unit.stateful.authorities import (
    OPTIONS,
    STATE_BYTES,
    FakeCluster,
    FaultyStore,
    batch,
    claim,
    join,
    keep,
    make_authority,
    now,
    options,
    value_of,
)
from tests.unit.stateful.simulation.scenario import simulated

KEY, OTHER = Key("run", "300839359"), Key("run", "265580972")


class Restarted:
    """A term whose predecessor has ended and had members, the first of which owned KEY.

    Attributes:
        version: under which it owned it.
        ended: why this term ended, if it did.
    """

    def __init__(self) -> None:
        self.store, self.cluster = DictStore(), FakeCluster(process="node/2/2")
        self.cluster.ended = {"node/1/1"}
        self.ended: list[BaseException] = []

    async def begin(self, *members: str) -> Restarted:
        first = await make_authority(store=self.store)
        sessions = [await join(first, name) for name in members]
        self.version = (await first.checkout(sessions[0], KEY)).version
        first.stop()
        self.authority = await make_authority(
            OPTIONS, self.store, self.cluster, on_end=self.ended.append
        )
        await self.authority.start()
        return self

    def states(self, step: int) -> StateBatch:
        return batch(KEY, Version(self.version.epoch, step), step)

    def joining(self, replica: str, part: ClaimPart | None = None) -> asyncio.Task[int]:
        return asyncio.create_task(join(self.authority, replica, part))

    async def open(self, replica: str) -> int:
        return (await self.authority.open_session(Hello(replica, 1))).session


# Which claims are waited for


@pytest.mark.parametrize("other", ["claims", "is dead", "is silent", "is unknown to the cluster"])
@simulated
async def test_claims_are_settled_when_every_member_has_claimed_is_dead_or_has_no_lease(other):
    term = await Restarted().begin("owner", "other")
    began = now()
    if other == "is dead":
        term.cluster.dead = {"other"}
    elif other == "is unknown to the cluster":
        term.cluster.current = None
    owner = term.joining("owner", ClaimPart(term.states(9)))
    await asyncio.sleep(0.01)
    assert not owner.done() or other == "is dead"
    if other == "claims":
        await join(term.authority, "other")
        await owner
        assert now() - began < 0.02
    elif other == "is dead":
        await owner
        assert now() - began < 0.05
    elif other == "is silent":
        await owner
        assert OPTIONS.lease_s + OPTIONS.lease_margin_s <= now() - began < 0.3
    else:
        await asyncio.sleep(5 * OPTIONS.lease_s)
        assert not owner.done(), "the replicas' calls may go to a later term"
        await join(term.authority, "other")
        await owner


@simulated
async def test_a_first_term_waits_for_no_claim():
    authority = await make_authority()
    await authority.checkout(await join(authority, "a"), KEY)
    assert now() < 0.02


@simulated
async def test_a_term_ends_if_the_cluster_knows_a_later_one_while_members_are_missing():
    """They may claim with the later term, and step on."""
    term = await Restarted().begin("elsewhere")
    term.cluster.current = False
    joining = term.joining("newcomer")
    await asyncio.sleep(2 * OPTIONS.lease_s)
    assert [type(error) for error in term.ended] == [SupersededError]
    assert not joining.done()
    joining.cancel()


@pytest.mark.parametrize("call", ["checkout", "reset"])
@simulated
async def test_nothing_is_granted_or_reset_between_the_parts_of_a_claim(call):
    term = await Restarted().begin("owner")
    newcomer = await join(term.authority, "newcomer")  # after the members' leases
    listening, owner = keep(term.authority, newcomer), await term.open("owner")
    if call == "checkout":
        waiting: asyncio.Task[Any] = asyncio.create_task(term.authority.checkout(newcomer, KEY))
    else:
        waiting = asyncio.create_task(term.authority.reset(newcomer, KEY.run))
    for _ in range(5):
        await asyncio.sleep(OPTIONS.lease_s * 0.5)
        await term.authority.claim(owner, ClaimPart(last=False))
        assert not waiting.done()
    await term.authority.claim(owner, ClaimPart(term.states(9)))
    assert await term.authority.listen(owner) == [KEY]
    assert not waiting.done()
    await term.authority.commit(owner, StateBatch(), [KEY])
    granted = await waiting
    assert granted is None or granted.version.step == 9
    listening.cancel()


@simulated
async def test_nothing_is_granted_between_the_last_claim_and_its_settlement():
    """Otherwise the longest waiting replica would get a state that its owner steps."""
    term = await Restarted().begin("owner", "another")
    newcomer = await join(term.authority, "newcomer")  # after the members' leases
    owner, another = await term.open("owner"), await term.open("another")
    granting = asyncio.create_task(term.authority.checkout(newcomer, KEY))
    await asyncio.sleep(0.01)
    claiming = asyncio.create_task(term.authority.claim(owner, ClaimPart(term.states(9))))
    await asyncio.sleep(0.01)
    await term.authority.claim(another, ClaimPart())
    assert await claiming == Claimed()
    assert await term.authority.listen(owner) == [KEY]
    assert not granting.done()
    await term.authority.commit(owner, term.states(10), [KEY])
    assert (await granting).version.step == 10


@simulated
async def test_a_new_term_logs_which_replicas_have_claimed(caplog):
    caplog.set_level("INFO", logger="ray.serve")
    term = await Restarted().begin("claims", "silent", "dead")
    term.cluster.dead = {"dead"}
    await join(term.authority, "claims", ClaimPart(term.states(9)))
    await asyncio.sleep(0.1)
    (line,) = (each for each in caplog.messages if "acts in term 2" in each)
    assert line.endswith("1 replicas claimed, 1 were dead, 1 were late; 1 hidden states")
    assert f"{term.authority.recovery_s:.2f} s after" in line
    assert 0.2 < term.authority.recovery_s < 0.4


# What a claim restores


@pytest.mark.parametrize("order", [("early", "late"), ("late", "early")], ids="-".join)
@simulated
async def test_of_two_claims_to_one_state_the_later_grant_wins(order):
    """The lease of the earlier one had expired."""
    term = await Restarted().begin(*order)
    versions = {"early": Version(2**80, 100), "late": Version(2**80 + 1, 3)}
    claiming = {}
    for replica in order:
        part = ClaimPart(batch(KEY, versions[replica], versions[replica].step))
        claiming[replica] = asyncio.create_task(claim(term.authority, replica, part))
        await asyncio.sleep(0.01)
    assert (await claiming["early"])[1] == Claimed(lost=[KEY])
    session, claimed = await claiming["late"]
    assert claimed == Claimed()
    assert await term.authority.commit(session, batch(KEY, Version(2**80 + 1, 4)), []) == []


@simulated
async def test_released_states_are_restored_with_their_receipts_and_have_no_owner():
    store, receipt = FaultyStore(), Receipt("key", "print", 100, (1, 0.5))
    authority = await make_authority(options(snapshot_period_s=1000.0), store)
    states = np.full((2, STATE_BYTES // 4), 0.5, np.float32).view(np.uint8)
    released = StateBatch([KEY, OTHER], [Version(7, 100)] * 2, states, {KEY: (receipt,)})
    _, claimed = await claim(authority, "a", ClaimPart(released=released))
    assert claimed == Claimed()
    await asyncio.sleep(0.01)
    assert store.snapshots == {snapshot_row(KEY), snapshot_row(OTHER)}, "they have no owner"
    session = await join(authority, "b")
    for key, receipts in ((KEY, (receipt,)), (OTHER, ())):
        granted = await authority.checkout(session, key)
        assert (granted.version.step, granted.receipts) == (100, receipts)
        assert value_of(granted.state) == 0.5


@simulated
async def test_of_an_outline_only_states_that_the_store_does_not_have_are_wanted():
    store = DictStore()
    first = await make_authority(store=store)
    session = await join(first, "owner")
    stored, newer, initial = (Key("run", name) for name in ("stored", "newer", "initial"))
    epochs = {
        key: (await first.checkout(session, key)).version.epoch for key in (stored, newer, initial)
    }
    for key in (stored, newer):
        await first.commit(session, batch(key, Version(epochs[key], 5), 5.0), [])
    await asyncio.sleep(2 * OPTIONS.snapshot_period_s)
    term = Restarted()
    term.store = store
    second = await make_authority(OPTIONS, store, term.cluster)
    owner = (await second.open_session(Hello("owner", 1))).session
    steps = {stored: 5, newer: 6, initial: 0}
    versions = [Version(epochs[key], step) for key, step in steps.items()]
    outline = StateBatch(list(steps), versions, np.empty((3, 0), np.uint8))
    claimed = await second.claim(owner, ClaimPart(outline, last=False))
    assert claimed == Claimed(wanted=[newer, initial])
    claimed = await second.claim(owner, ClaimPart(batch(newer, versions[1], 6.0)))
    assert claimed == Claimed(lost=[initial])
    await second.commit(owner, StateBatch(), [stored, newer])
    other = await join(second, "other")
    granted = [await second.checkout(other, key) for key in (stored, newer)]
    assert [(each.version.step, value_of(each.state)) for each in granted] == [(5, 5.0), (6, 6.0)]


@simulated
async def test_what_a_claim_does_not_name_is_free_after_it():
    authority = await make_authority()
    await authority.checkout(await join(authority, "a"), KEY)
    session = await join(authority, "a")
    assert authority._ownership.sessions[session].owned == {}
    await authority.checkout(await join(authority, "b"), KEY)


@simulated
async def test_a_replica_whose_lease_expired_keeps_what_was_not_granted_since():
    authority = await make_authority()
    session, keys = await join(authority, "a"), [Key("run", str(n)) for n in range(3)]
    epochs = [(await authority.checkout(session, key)).version.epoch for key in keys]
    await asyncio.sleep(2 * OPTIONS.lease_s)
    other = await join(authority, "b")
    await authority.checkout(other, keys[0])
    await authority.commit(other, StateBatch(), keys[:1])
    versions = [Version(epoch, 7) for epoch in epochs]
    states = StateBatch(keys, versions, np.ones((3, STATE_BYTES), np.uint8))
    session, claimed = await claim(authority, "a", ClaimPart(states))
    assert claimed == Claimed(lost=keys[:1])
    assert set(authority._ownership.sessions[session].owned) == set(keys[1:])


@simulated
async def test_a_claim_does_not_change_a_state_that_another_replica_owns():
    authority = await make_authority()
    owner = await join(authority, "owner")
    epoch = (await authority.checkout(owner, KEY)).version.epoch
    later = batch(KEY, Version(2**90, 99))
    for part in (ClaimPart(later), ClaimPart(released=later)):
        _, claimed = await claim(authority, "other", part)
        assert claimed.lost == [KEY]
    assert await authority.commit(owner, batch(KEY, Version(epoch, 1)), []) == []


@simulated
async def test_a_step_that_is_claimed_after_the_next_owner_was_chosen_is_lost():
    """The choice stands although the grant, and its epoch, wait for the store."""
    store = FaultyStore()
    authority = await make_authority(options(durability="store_async"), store)
    late, other = await join(authority, "late"), await join(authority, "other")
    epoch = (await authority.checkout(late, KEY)).version.epoch
    store.latency_s = 0.25
    states = batch(KEY, Version(epoch, 3), 3.0, Receipt("key", "print", 3, ()))
    committing = asyncio.create_task(authority.commit(late, states, []))
    granting = asyncio.create_task(authority.checkout(other, KEY))
    listening = keep(authority, other)
    await asyncio.sleep(1.5 * OPTIONS.lease_s)  # the lease of the first one has expired
    _, claimed = await claim(authority, "late", ClaimPart(released=batch(KEY, Version(epoch, 4))))
    assert claimed.lost == [KEY]
    assert (await granting).version.step == 3
    listening.cancel()
    await committing


@pytest.mark.parametrize(
    ("durability", "restore_after_restart", "restores"),
    [
        ("memory", False, False),
        ("memory", True, True),
        ("actor", False, False),
        ("store", False, True),
        ("store_async", False, True),
    ],
)
@simulated
async def test_snapshots_of_another_start_are_restored_if_commits_reach_the_store_or_if_configured(
    durability, restore_after_restart, restores
):
    store = DictStore()
    first = await make_authority(options(durability=durability), store)
    released = batch(KEY, Version(1, 3))
    await claim(first, "a", ClaimPart(released=released))
    await asyncio.sleep(0.01)
    first.stop()
    cluster = FakeCluster("second")
    second_options = options(
        durability=durability, restore_after_restart=restore_after_restart, max_states=1
    )
    second = await make_authority(second_options, store, cluster)
    granted = await second.checkout(await join(second, "b"), KEY)
    assert granted.version.step == (3 if restores else 0)
    await asyncio.sleep(0.2)
    assert (snapshot_row(KEY) in store.rows) is restores
    if restores:  # the next term restores it, whatever its options are
        assert has_stamp(store.rows[snapshot_row(KEY)], cluster_stamp("second"))


@simulated
async def test_the_snapshot_of_an_unowned_state_is_written_at_once():
    store = DictStore()
    authority = await make_authority(options(snapshot_period_s=1000.0), store)
    session = await join(authority, "a")
    for key in (KEY, OTHER):
        version = (await authority.checkout(session, key)).version
        await authority.commit(session, batch(key, Version(version.epoch, 1)), [])
    await authority.commit(session, StateBatch(), [KEY])
    await asyncio.sleep(0.01)
    assert [snapshot_row(key) in store.rows for key in (KEY, OTHER)] == [True, False]
    await asyncio.sleep(2 * OPTIONS.lease_s)  # the owner's lease has expired
    assert snapshot_row(OTHER) in store.rows


@simulated
async def test_a_slow_store_delays_the_start_and_no_lease_of_this_term_expires():
    store = FaultyStore()
    await join(await make_authority(store=store), "owner")
    store.latency_s = 0.28  # a scan takes longer than a leader lease
    cluster = FakeCluster(process="node/2/2")
    cluster.ended = {"node/1/1"}
    second = await make_authority(OPTIONS, store, cluster)
    await second.start()
    assert second._leadership.may_act()
