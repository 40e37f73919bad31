"""What the audit log keeps, that it stays small, and that nothing waits for it."""

import itertools

import pytest

from deployments.access.audit import MAX_DISTINCT, MAX_TEXT, OTHERS, AuditBuffer, AuditLog, Entry
from deployments.access.control import AccessControl
from deployments.access.keys import Keys
from deployments.access.tokens import Tokens
from deployments.store import StoreUnavailable
from tests.unit.access.conftest import SECRET


@pytest.fixture
def log(store):
    return AuditLog(store.as_store(), most=50)


@pytest.fixture
def buffer(log):
    return AuditBuffer(log, itertools.count(1_700_000_000_000).__next__)


def entry(number: int) -> Entry:
    return Entry("changes", number, "user added", "operator", "here", f"user {number}", 1, number)


async def test_entries_are_read_in_their_order_whichever_log_they_are_in(log):
    await log.append("changes", [entry(1), entry(3)])
    await log.append("uses", [Entry("uses", 2, "login", "ann", "10.0.0.1", "", 1, 2)])
    assert [each.at_ms for each in await log.entries()] == [1, 2, 3]
    assert (await log.entries())[0] == entry(1)


async def test_the_oldest_beyond_the_bound_drop_out_of_their_own_log_alone(log, store):
    await log.append("uses", [Entry("uses", 1, "login", "ann", "10.0.0.1", "", 1, 1)])
    for number in range(0, 210, 7):
        await log.append("changes", [entry(n) for n in range(number, number + 7)])
    kept = await log.entries()
    assert [each.at_ms for each in kept if each.log == "changes"] == list(range(160, 210))
    assert [each.event for each in kept if each.log == "uses"] == ["login"]
    assert len(store.table("audit_changes")) == 50 + 1


async def test_what_was_added_although_the_store_said_no_is_added_once(log, store, monkeypatch):
    change = store.change

    async def change_and_fail(*args, **given):
        await change(*args, **given)
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(store, "change", change_and_fail)
    with pytest.raises(StoreUnavailable):
        await log.append("changes", [entry(1)])
    monkeypatch.undo()
    await log.append("changes", [entry(2)])
    await log.append("changes", [entry(1)])
    assert [each.at_ms for each in await log.entries()] == [1, 2]


async def test_whoever_is_overtaken_by_others_tries_again(log, store, monkeypatch):
    get, overtaken = store.get, 0

    async def get_late(table, key):
        nonlocal overtaken
        value: bytes | None = await get(table, key)
        if overtaken < 3:
            overtaken += 1
            await log.append("changes", [entry(100 + overtaken)])
        return value

    monkeypatch.setattr(store, "get", get_late)
    await log.append("changes", [entry(200)])
    assert {each.at_ms for each in await log.entries()} == {101, 102, 103, 200}


async def test_alike_events_are_one_entry_with_a_count(log, buffer):
    for _ in range(1000):
        buffer.note("token refused", "ann", "10.0.0.1", "The token has expired")
    buffer.note("login", "ann", "10.0.0.1")
    await buffer.flush()
    refused, login = sorted(await log.entries(), key=lambda each: each.count, reverse=True)
    assert (refused.event, refused.who, refused.count) == ("token refused", "ann", 1000)
    assert refused.last_ms - refused.at_ms == 999
    assert (login.log, login.event, login.where) == ("uses", "login", "10.0.0.1")


async def test_a_flood_of_different_refusals_makes_few_entries_and_drives_out_nothing_else(
    log, buffer, store
):
    buffer.note("login", "ann", "10.0.0.1")
    before = store.calls
    for number in range(100_000):
        buffer.note("token refused", "", f"10.{number}", "The token is invalid")
        buffer.note("login refused", f"user {number}", "10.0.0.2", "no")
    assert store.calls == before, "no request waits for the store"
    await buffer.flush()
    kept = await log.entries()
    refusals = [each for each in kept if each.log == "refusals"]
    assert len(refusals) <= MAX_DISTINCT + 2
    assert sum(each.count for each in refusals) == 200_000
    assert {each.event for each in refusals if each.who == OTHERS} == {
        "token refused",
        "login refused",
    }
    assert [each.event for each in kept if each.log == "uses"] == ["login"]


async def test_while_the_store_is_away_what_is_noted_is_kept_within_bounds(log, buffer, store):
    buffer.note("login", "ann", "10.0.0.1")
    store.serves = False
    for number in range(1000):
        buffer.note("login refused", f"user {number}", "10.0.0.2", "no")
        if number % 100 == 0:
            with pytest.raises(StoreUnavailable):
                await buffer.flush()
    store.serves = True
    await buffer.flush()
    await buffer.flush()
    kept = await log.entries()
    assert sum(each.count for each in kept if each.log == "refusals") == 1000
    assert len(kept) <= 2 * (MAX_DISTINCT + 2) + 1


@pytest.mark.parametrize("text", ["x" * 10_000, "\x1b[2J" * 99, "a\nb", "\udcff"])
async def test_a_field_is_short_and_does_nothing_to_a_terminal(log, buffer, text):
    buffer.note("login refused", text, text, text)
    await buffer.flush()
    (kept,) = await log.entries()
    for field in (kept.who, kept.where, kept.detail):
        assert len(field) <= MAX_TEXT
        assert field.isprintable()
        field.encode()


async def test_what_is_noted_is_kept_when_a_replica_stops(log, buffer):
    keys = Keys.of_secret(SECRET)
    access = AccessControl(Tokens(keys, 60, 5), lambda: keys, buffer)
    access.audit.note("login", "ann", "203.0.113.9")
    await access.close()
    assert [each.event for each in await log.entries()] == ["login"]
