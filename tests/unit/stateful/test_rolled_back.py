"""A store that has lost writes is found and refused, until an operator accepts it."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from deployments.stateful.admission import Claimant, admit
from deployments.stateful.authority.fenced_writer import SupersededError
from deployments.stateful.layout import LAYOUT_ROW, Layout, agree_on_layout
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    ClaimPart,
    Hello,
    Key,
    Version,
)
from deployments.stateful.rolled_back import (
    ROLLED_BACK_ROW,
    StoreRolledBackError,
    accept_rolled_back,
)
from tests.support.states import DictStore
from tests.unit.stateful.authorities import (
    OPTIONS,
    TABLE,
    FakeCluster,
    FaultyStore,
    InterruptedStore,
    NumberingAuthority,
    batch,
    join,
    keep,
    make_authority,
    next_term,
    value_of,
)
from tests.unit.stateful.simulation.scenario import simulated

KEY = Key("default", "300839359")
NOTICED_S = OPTIONS.lease_s  # by then the state actor has confirmed its term
RESTORING = OPTIONS.model_copy(update={"restore_after_restart": True})


class Acting:
    """An authority whose replica has committed a step, which the store has.

    Attributes:
        backup: the store before that.
        before_the_term: the store before the term began.
        notes: what its cluster remembers.
        ended: why the process of the authority ends.
    """

    async def begin(self, options: StateOptions = OPTIONS) -> Acting:
        self.store, self.ended = DictStore(), list[BaseException]()
        cluster, self.notes = FakeCluster(), dict[str, str]()
        cluster.notes = self.notes
        self.authority = await make_authority(
            options, self.store, cluster, on_end=self.ended.append
        )
        self.before_the_term = dict(self.store.rows)
        self.session = await join(self.authority, "a")
        self.renewing = keep(self.authority, self.session)
        await self.commit(1)
        self.backup = dict(self.store.rows)
        await self.commit(2)
        _, self.seen = await self.authority.poll(self.session)
        return self

    async def commit(self, step: int) -> None:
        if step == 1:
            self.epoch = (await self.authority.checkout(self.session, KEY)).version.epoch
        states = batch(KEY, Version(self.epoch, step), float(step))
        await self.authority.commit(self.session, states, [])
        await self.authority._snapshots.flush()

    def die(self) -> None:
        self.renewing.cancel()
        self.authority.stop()

    async def start_from_backup(self) -> tuple[NumberingAuthority, FaultyStore]:
        """Die, and start the next term, from the backup."""
        self.die()
        store = FaultyStore()
        store.rows.update(self.backup)
        second = await next_term(store, on_end=self.ended.append)
        await second.start()
        return second, store


async def replica_starts(store: DictStore) -> Layout:
    async def has_ended(process: str) -> bool:
        return False

    return await admit(store, TABLE, Claimant("first", "test"), OPTIONS, has_ended)


@pytest.mark.parametrize("left", ["backup", "before_the_term", "nothing"])
@simulated
async def test_a_state_actor_finds_that_the_store_has_lost_its_writes(left):
    acting = await Acting().begin()
    acting.store.rows = dict(getattr(acting, left, {}))
    await asyncio.sleep(NOTICED_S)
    assert isinstance(acting.ended[0], StoreRolledBackError)
    acting.die()
    for refused in (replica_starts(acting.store), (await next_term(acting.store)).start()):
        with pytest.raises(StoreRolledBackError, match=r"lost writes .* greenwave accept"):
            await refused


@pytest.mark.parametrize("left", ["backup", "before_the_term"])
@simulated
async def test_a_confirmation_of_the_term_finds_it_before_the_next_write_does(left):
    acting = await Acting().begin()
    acting.store.rows = dict(getattr(acting, left))
    with pytest.raises(StoreRolledBackError):
        await acting.authority._leadership.writer.is_mine()
    assert ROLLED_BACK_ROW in acting.store.rows
    acting.die()


@simulated
async def test_a_commit_that_must_reach_the_store_is_not_acknowledged_after_a_rollback():
    acting = await Acting().begin(OPTIONS.model_copy(update={"durability": "store"}))
    acting.store.rows = dict(acting.backup)
    committing = asyncio.ensure_future(acting.commit(3))
    await asyncio.sleep(NOTICED_S)
    assert not committing.done()
    assert isinstance(acting.ended[0], StoreRolledBackError)
    committing.cancel()
    acting.die()


@simulated
async def test_a_replica_finds_it_if_the_state_actor_died():
    acting = await Acting().begin()
    acting.die()
    acting.store.rows = dict(acting.backup)
    second = await next_term(acting.store)
    with pytest.raises(StoreRolledBackError):
        await second.open_session(Hello("a", 1, acting.seen))
    with pytest.raises(StoreRolledBackError):
        await replica_starts(acting.store)
    second.stop()


@pytest.mark.parametrize("down", [False, True], ids=["", "the store is down"])
@simulated
async def test_a_term_that_a_replica_knows_to_lack_writes_serves_no_other_replica(down):
    acting = await Acting().begin()
    second, store = await acting.start_from_backup()
    store.server.down = down
    with pytest.raises(AuthorityUnavailableError if down else StoreRolledBackError):
        await second.open_session(Hello("a", 1, acting.seen))
    assert acting.ended
    store.server.down = False
    for _ in range(3):
        with pytest.raises(AuthorityUnavailableError):
            await second.open_session(Hello("b", 1))
        await asyncio.sleep(NOTICED_S)
    second.stop()


@simulated
async def test_a_term_that_lacks_writes_ends_though_the_replica_that_knows_it_leaves():
    acting = await Acting().begin()
    second, _ = await acting.start_from_backup()
    opening = asyncio.create_task(second.open_session(Hello("a", 1, acting.seen)))
    while second._leadership.may_act():
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    assert isinstance(acting.ended[0], asyncio.CancelledError)
    second.stop()


@simulated
async def test_a_term_ends_when_another_process_has_found_the_store_rolled_back():
    acting = await Acting().begin()
    await acting.commit(3)
    await acting.commit(4)
    acting.die()
    acting.store.rows = dict(acting.backup)
    second = await next_term(acting.store, on_end=acting.ended.append)
    await second.start()
    with pytest.raises(StoreRolledBackError):
        await acting.authority._leadership.writer.is_mine()
    await asyncio.sleep(NOTICED_S)
    assert isinstance(acting.ended[0], SupersededError)
    second.stop()


@simulated
async def test_a_replica_with_the_latest_mark_is_served_by_every_term():
    acting = await Acting().begin()
    acting.die()
    second = await next_term(acting.store)
    opened = await second.open_session(Hello("a", 1, acting.seen))
    assert opened.session >> 32 == 2
    second.stop()


@simulated
async def test_the_later_store_is_served_again_without_a_command():
    acting = await Acting().begin()
    later = dict(acting.store.rows)
    acting.store.rows = dict(acting.backup)
    await asyncio.sleep(NOTICED_S)
    acting.die()
    acting.store.rows = later
    await replica_starts(acting.store)
    second = await next_term(acting.store)
    await second.start()
    assert [each.version.step for each in second._table] == [2]
    second.stop()


class Moved:
    """States that have moved through three layouts, in a cluster that remembers them.

    Attributes:
        backups: the store with each of them.
    """

    async def begin(self) -> Moved:
        self.store, self.cluster = DictStore(), FakeCluster()
        first = await make_authority(store=self.store, cluster=self.cluster)
        await first.start()
        first.stop()
        self.backups = [dict(self.store.rows)]
        for shards in (2, 4):
            await self.starts(shards)
            self.backups.append(dict(self.store.rows))
        return self

    async def starts(self, shards: int) -> int:
        """Start the first authority of a layout, and return the layout's generation."""
        options = OPTIONS.model_copy(update={"shards": shards})
        layout = await agree_on_layout(self.store, TABLE, options, "test")
        for each in layout.earlier:
            self.store.rows.pop(each.row, None)  # as when it was retired
        partition = layout.partitions[0]
        authority = await make_authority(options, self.store, self.cluster, partition)
        await authority.start()
        authority.stop()
        return layout.generation


@simulated
async def test_no_term_begins_from_a_store_that_has_lost_the_term_before():
    acting = await Acting().begin()
    acting.die()
    acting.store.rows = dict(acting.before_the_term)
    cluster = FakeCluster(process="node/2/2")
    cluster.notes = acting.notes
    second = await make_authority(store=acting.store, cluster=cluster)
    with pytest.raises(StoreRolledBackError):
        await second.start()
    assert ROLLED_BACK_ROW in acting.store.rows


@simulated
async def test_the_next_layout_asks_the_state_actor_whose_record_the_store_has_lost():
    acting = await Acting().begin()
    acting.store.rows = dict(acting.before_the_term)
    options = OPTIONS.model_copy(update={"shards": 2})
    (partition, _) = (await agree_on_layout(acting.store, TABLE, options, "test")).partitions
    cluster = FakeCluster(process="node/2/2")
    cluster.notes = acting.notes
    later = await make_authority(options, acting.store, cluster, partition)
    starting = asyncio.create_task(later.start())
    await asyncio.sleep(NOTICED_S)
    assert cluster.retire_calls
    assert isinstance(acting.ended[0], StoreRolledBackError)
    starting.cancel()
    later.stop()
    acting.die()


@pytest.mark.parametrize(
    ("backup", "shards"),
    [(0, 1), (1, 3)],
    ids=["an earlier layout", "another layout of the same generation"],
)
@simulated
async def test_no_term_begins_from_a_store_that_has_lost_a_layout(backup, shards):
    moved = await Moved().begin()
    moved.store.rows = dict(moved.backups[backup])
    with pytest.raises(StoreRolledBackError):
        await moved.starts(shards)
    assert await accept_rolled_back(moved.store, TABLE)
    layout = await replica_starts(moved.store)
    assert layout.generation > 3
    assert await moved.starts(layout.shards) == layout.generation


@simulated
async def test_a_store_that_has_lost_a_layout_is_served_again_when_the_later_one_is_back():
    moved = await Moved().begin()
    moved.store.rows = dict(moved.backups[1])
    with pytest.raises(StoreRolledBackError):
        await moved.starts(3)
    moved.store.rows = dict(moved.backups[2])
    assert await moved.starts(4) == 3


@simulated
async def test_a_layout_that_changes_while_a_term_begins_is_not_taken_for_a_loss():
    store = DictStore()
    first = await make_authority(store=store, cluster=(cluster := FakeCluster()))
    cluster.responds_after_s = NOTICED_S / 10
    starting = asyncio.create_task(first.start())
    while not first.term:
        await asyncio.sleep(0.001)
    later = await agree_on_layout(store, TABLE, OPTIONS.model_copy(update={"shards": 2}), "test")
    cluster.notes[f"layout/{later.generation}"] = later.id
    await starting
    assert ROLLED_BACK_ROW not in store.rows
    first.stop()


@simulated
async def test_a_term_does_not_begin_while_the_cluster_does_not_remember():
    first = await make_authority(cluster=(cluster := FakeCluster()))
    cluster.responds_after_s = NOTICED_S / 10
    starting = asyncio.create_task(first.start())
    while not first.term:
        await asyncio.sleep(0.001)
    cluster.current = None
    with pytest.raises(AuthorityUnavailableError):
        await starting
    cluster.current = True
    await first.start()
    first.stop()


@simulated
async def test_after_an_operator_has_accepted_the_store_states_continue_from_what_it_has():
    acting = await Acting().begin()
    acting.store.rows = dict(acting.backup)
    await asyncio.sleep(NOTICED_S)
    acting.die()
    assert await accept_rolled_back(acting.store, TABLE)
    layout = await replica_starts(acting.store)
    assert layout.generation > 2
    third = await of_layout(layout, acting.store)
    granted = await third.checkout(await join_layout(third, layout), KEY)
    assert (granted.version.step, value_of(granted.state)) == (1, 1.0)
    assert granted.version.epoch > acting.epoch
    third.stop()


@simulated
async def test_an_acceptance_keeps_the_partitions_of_a_layout_that_is_made_meanwhile():
    store = InterruptedStore()
    await agree_on_layout(store, TABLE, OPTIONS, "test")
    store.rows[ROLLED_BACK_ROW] = b"1"

    async def change_layout() -> None:
        await agree_on_layout(store, TABLE, OPTIONS.model_copy(update={"shards": 2}), "test")

    store.after_a_look = change_layout
    assert await accept_rolled_back(store, TABLE)
    accepted = Layout.unpack(store.rows[LAYOUT_ROW])
    assert accepted.generation == 3
    assert [each.generation for each in accepted.earlier] == [1, 2, 2]
    assert ROLLED_BACK_ROW not in store.rows


async def of_layout(layout: Layout, store: DictStore) -> NumberingAuthority:
    """Return the authority of a layout, after the one before has been retired."""

    class Retiring(FakeCluster):
        async def retire(self, partition):
            cluster = FakeCluster(process="node/3/3")
            cluster.ended = {"node/1/1"}
            await (await make_authority(RESTORING, store, cluster, partition)).retire()

    return await make_authority(
        RESTORING, store, Retiring(process="node/4/4"), layout.partitions[0]
    )


async def join_layout(authority: NumberingAuthority, layout: Layout) -> int:
    opened = await authority.open_session(Hello("b", layout.generation))
    await authority.claim(opened.session, ClaimPart())
    return opened.session


@simulated
async def test_a_store_that_was_not_found_rolled_back_is_not_changed():
    store = DictStore()
    await agree_on_layout(store, TABLE, OPTIONS, "test")
    before = dict(store.rows)
    assert not await accept_rolled_back(store, TABLE)
    assert store.rows == before


def test_the_refusal_survives_pickling():
    error = StoreRolledBackError()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
