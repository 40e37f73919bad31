from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator

import numpy as np
import pytest

from deployments.channel import Address
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    Key,
    Receipt,
    StaleSessionError,
    StateBatch,
    Version,
)
from deployments.stateful.ray.commit_channel import (
    CommitChannel,
    CommitServer,
    decode_commit,
    encode_commit,
)
from deployments.trace_context import Trace
from tests.unit.stateful.authorities import CALLS, NumberingAuthority, join, make_authority
from tests.unit.stateful.ray.serving import serving

KEYS = [Key("default", "a"), Key('run "7"', "b")]
STATES = np.random.default_rng(0).integers(0, 256, (2, 512), np.uint8)


@pytest.fixture
async def authority() -> AsyncIterator[NumberingAuthority]:
    # a machine that is busy for a second ends no lease here
    authority = await make_authority(StateOptions(lease_s=30))
    await authority.start()
    yield authority
    authority.stop()


@pytest.fixture
async def address(authority: NumberingAuthority) -> AsyncIterator[Address]:
    async with serving(CommitServer(authority)) as address:
        yield address


@pytest.fixture
async def channel(address: Address) -> AsyncIterator[CommitChannel]:
    channel = await CommitChannel.open(address)
    yield channel
    channel.close()


def encoded(session: int, states: StateBatch, released: list[Key]) -> bytes:
    return encode_commit(session, states, released, next(CALLS))


async def owned(authority: NumberingAuthority) -> tuple[int, list[Version]]:
    """Open a session that owns both keys, and return it with the versions that it was granted."""
    session = await join(authority, "replica")
    grants = [await authority.checkout(session, key) for key in KEYS]
    return session, [grant.version for grant in grants]


def test_a_commit_survives_its_encoding() -> None:
    receipts = (Receipt("first", "f" * 16, 3, (1, 0.1)), Receipt("second", "", 4, (0, 1 / 3)))
    batch = StateBatch(KEYS, [Version(2**60, 1), Version(2, 4)], STATES, {KEYS[1]: receipts})
    trace = Trace(2**127, 2**63)
    encoded = encode_commit(5, batch, KEYS[:1], 9, trace)
    (session, decoded, released, call), traces = decode_commit(encoded)
    assert (session, released, call, traces) == (5, KEYS[:1], 9, [trace])
    assert (decoded.keys, decoded.versions) == (batch.keys, batch.versions)
    assert np.array_equal(decoded.states, STATES)
    assert decoded.receipts == {KEYS[1]: receipts}
    assert type(decoded.receipts[KEYS[1]][0]) is Receipt


def test_a_commit_of_nothing_survives_its_encoding() -> None:
    (session, decoded, released, _), traces = decode_commit(encoded(5, StateBatch(), []))
    assert (session, decoded.keys, released, traces) == (5, [], [], [])


async def test_committed_states_are_what_the_next_owner_gets(
    authority: NumberingAuthority, channel: CommitChannel
) -> None:
    session, versions = await owned(authority)
    stepped = [Version(version.epoch, version.step + 1) for version in versions]
    assert await channel.commit(encoded(session, StateBatch(KEYS, stepped, STATES), [])) == []
    assert await channel.commit(encoded(session, StateBatch(), KEYS)) == []
    other = await join(authority, "other")
    grant = await authority.checkout(other, KEYS[1])
    assert grant.version.step == stepped[1].step
    assert grant.state == STATES[1].tobytes()


async def test_states_of_another_owner_are_refused(
    authority: NumberingAuthority, channel: CommitChannel
) -> None:
    await owned(authority)
    other = await join(authority, "other")
    batch = StateBatch(KEYS, [Version(1, 1)] * 2, STATES)
    assert await channel.commit(encoded(other, batch, [])) == KEYS


async def test_a_session_that_has_ended_is_told_and_the_channel_goes_on(
    channel: CommitChannel,
) -> None:
    for _ in range(2):
        with pytest.raises(StaleSessionError, match="7"):
            await channel.commit(encoded(7, StateBatch(), []))


async def test_receipts_reach_the_next_owner_with_the_state(
    authority: NumberingAuthority, channel: CommitChannel
) -> None:
    session, versions = await owned(authority)
    receipt = Receipt("key", "print", 1, (3, 0.75))
    stepped = [Version(version.epoch, 1) for version in versions]
    batch = StateBatch(KEYS, stepped, STATES, {KEYS[0]: (receipt,)})
    assert await channel.commit(encoded(session, batch, KEYS)) == []
    other = await join(authority, "other")
    assert (await authority.checkout(other, KEYS[0])).receipts == (receipt,)
    assert (await authority.checkout(other, KEYS[1])).receipts == ()


async def test_an_authority_that_may_not_act_says_so_and_the_channel_goes_on(
    authority: NumberingAuthority, channel: CommitChannel
) -> None:
    session, versions = await owned(authority)
    commit = encoded(session, StateBatch(KEYS, versions, STATES), [])
    authority._leadership.lease._until = 0.0
    for _ in range(2):
        with pytest.raises(AuthorityUnavailableError, match="is not sure that its term is current"):
            await channel.commit(commit)
    await authority._leadership.lease.renew()
    assert await channel.commit(commit) == []


async def test_without_the_token_nothing_is_committed(
    authority: NumberingAuthority, address: Address
) -> None:
    session, versions = await owned(authority)
    intruder = await CommitChannel.open(address._replace(token=bytes(32)))
    with pytest.raises(AuthorityUnavailableError):
        await intruder.commit(encoded(session, StateBatch(KEYS, versions, STATES), KEYS))
    other = await join(authority, "other")
    with pytest.raises(TimeoutError):  # still owned by the first
        await asyncio.wait_for(authority.checkout(other, KEYS[0]), 0.05)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\0\0\0",
        struct.pack(">I", 2**31),
        struct.pack(">I", 4) + b"\xff\xff\xff\xff",
        bytes(4),
        bytes(8),
    ],
)
async def test_garbage_ends_its_connection_alone(
    authority: NumberingAuthority,
    address: Address,
    channel: CommitChannel,
    garbage: bytes,
) -> None:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(address.token + garbage)
    writer.write_eof()
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    session, versions = await owned(authority)
    assert await channel.commit(encoded(session, StateBatch(KEYS, versions, STATES), [])) == []


async def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(
    authority: NumberingAuthority, channel: CommitChannel
) -> None:
    session, _ = await owned(authority)
    given_up = asyncio.create_task(channel.commit(encoded(7, StateBatch(), [])))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    with pytest.raises(AuthorityUnavailableError):
        await channel.commit(encoded(session, StateBatch(), []))
