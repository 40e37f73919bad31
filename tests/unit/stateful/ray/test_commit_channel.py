"""The channel of commits: its frames, its errors, and who may use it."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from typing import cast

import numpy as np
import pytest

from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    Key,
    Receipt,
    StaleSessionError,
    StateBatch,
    Version,
    pack_frame,
)
from deployments.stateful.ray.channel import Address, Channel
from deployments.stateful.ray.commit_channel import (
    CommitChannel,
    CommitServer,
    decode_commit,
    encode_commit,
)
from deployments.trace_context import Trace
from tests.support.virtual_time import virtual_time
from tests.unit.stateful.authorities import (
    CALLS,
    STATE_BYTES,
    NumberingAuthority,
    join,
    make_authority,
)
from tests.unit.stateful.ray.serving import serving

KEYS = [Key("default", "a"), Key('run "7"', "b")]
STATES = np.random.default_rng(0).integers(0, 256, (2, STATE_BYTES), np.uint8)


@pytest.fixture
async def authority() -> AsyncIterator[NumberingAuthority]:
    # no lease expires on a machine that is busy for a second
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


async def own_keys(authority: NumberingAuthority) -> tuple[int, list[Version]]:
    """Open a session that owns both keys; return it with the versions that it was granted."""
    session = await join(authority, "replica")
    grants = [await authority.checkout(session, key) for key in KEYS]
    return session, [grant.version for grant in grants]


async def is_owned(authority: NumberingAuthority, key: Key) -> bool:
    other = await join(authority, "other")
    try:
        await asyncio.wait_for(authority.checkout(other, key), 0.05)
    except TimeoutError:
        return True
    return False


@pytest.mark.parametrize("empty", [False, True])
def test_a_commit_is_read_as_it_was_written(empty):
    receipts = (Receipt("first", "f" * 16, 3, (1, 0.1)), Receipt("second", "", 4, ()))
    batch, released, trace = StateBatch(), list[Key](), None
    if not empty:
        versions = [Version(2**60, 1), Version(2, 4)]
        batch = StateBatch(KEYS, versions, STATES, {KEYS[1]: receipts})
        released, trace = KEYS[:1], Trace(2**127, 2**63)
    read, traces = decode_commit(encode_commit(5, batch, released, 9, trace))
    session, decoded, read_released, call = read
    assert (session, read_released, call, traces) == (5, released, 9, [trace] if trace else [])
    assert (decoded.keys, decoded.versions) == (batch.keys, batch.versions)
    assert np.array_equal(decoded.states, batch.states)
    assert decoded.receipts == batch.receipts
    assert all(type(each) is Receipt for of_key in decoded.receipts.values() for each in of_key)


def test_outputs_of_numpy_are_committed_as_plain_numbers():
    receipt = Receipt("key", "print", 1, (np.float64(0.1), True))
    batch = StateBatch(KEYS, [Version(1, 1)] * 2, STATES, {KEYS[0]: (receipt,)})
    (_, read, _, _), _ = decode_commit(encode_commit(5, batch, [], 9))
    ((output, _),) = [each.output for each in read.receipts[KEYS[0]]]
    assert (output, type(output)) == (0.1, float)


@pytest.mark.parametrize("header", [5, [], [1, 1, [], None, 5]])
def test_a_frame_of_another_form_is_not_a_commit(header):
    with pytest.raises(ValueError, match="not"):
        decode_commit(pack_frame(header, STATES))


@pytest.mark.parametrize(
    "frame",
    [b"", b"\0\0\0", bytes(4), struct.pack(">I", 1) + b"0"],
    ids=["empty", "half a length", "no header", "a header without a value"],
)
def test_bytes_that_are_not_a_frame_are_not_a_commit(frame):
    with pytest.raises(ValueError, match="not a frame"):
        decode_commit(frame)


async def test_the_next_owner_gets_what_was_committed(authority, channel):
    session, versions = await own_keys(authority)
    receipt = Receipt("key", "print", 1, (3, 0.75))
    stepped = [Version(version.epoch, version.step + 1) for version in versions]
    batch = StateBatch(KEYS, stepped, STATES, {KEYS[0]: (receipt,)})
    assert await channel.commit(encoded(session, batch, [])) == []
    assert await channel.commit(encoded(session, StateBatch(), KEYS)) == []
    other = await join(authority, "other")
    grants = [await authority.checkout(other, key) for key in KEYS]
    assert [grant.state for grant in grants] == [state.tobytes() for state in STATES]
    assert [grant.version.step for grant in grants] == [1, 1]
    assert [grant.receipts for grant in grants] == [(receipt,), ()]


async def test_states_of_another_owner_are_refused(authority, channel):
    await own_keys(authority)
    other = await join(authority, "other")
    batch = StateBatch(KEYS, [Version(1, 1)] * 2, STATES)
    assert await channel.commit(encoded(other, batch, [])) == KEYS


async def test_the_channel_stays_open_after_an_error_of_the_authority(authority, channel):
    for _ in range(2):
        with pytest.raises(StaleSessionError, match="Session 7"):
            await channel.commit(encoded(7, StateBatch(), []))
    session, versions = await own_keys(authority)
    batch = StateBatch(KEYS, versions, STATES)
    authority._leadership.lease._until = 0.0
    with pytest.raises(AuthorityUnavailableError, match="is not sure that its term is current"):
        await channel.commit(encoded(session, batch, []))
    await authority._leadership.lease.renew()
    assert await channel.commit(encoded(session, batch, [])) == []


@virtual_time
async def test_an_address_that_does_not_respond_is_unavailable(monkeypatch):
    async def open_connection(host: str, port: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    with pytest.raises(AuthorityUnavailableError, match="at lost-machine:1"):
        await CommitChannel.open(Address("lost-machine", 1, bytes(32)))


async def test_without_the_token_nothing_is_committed(authority, address):
    session, versions = await own_keys(authority)
    intruder = await CommitChannel.open(address._replace(token=bytes(32)))
    with pytest.raises(AuthorityUnavailableError):
        await intruder.commit(encoded(session, StateBatch(KEYS, versions, STATES), KEYS))
    assert await is_owned(authority, KEYS[0])


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\0\0\0",
        struct.pack(">I", 2**31),
        struct.pack(">I", 4) + b"\xff\xff\xff\xff",
        struct.pack(">I", 6) + struct.pack(">I", 2) + b"[]",
        bytes(4),
        bytes(8),
    ],
)
async def test_garbage_ends_its_own_connection_only(authority, address, channel, garbage):
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(address.token + garbage)
    writer.write_eof()
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    session, versions = await own_keys(authority)
    assert await channel.commit(encoded(session, StateBatch(KEYS, versions, STATES), [])) == []


async def test_the_response_to_a_cancelled_commit_is_not_taken_for_the_next_one(authority, channel):
    session, _ = await own_keys(authority)
    cancelled = asyncio.create_task(channel.commit(encoded(7, StateBatch(), [])))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    with pytest.raises(AuthorityUnavailableError):
        await channel.commit(encoded(session, StateBatch(), []))


async def test_a_connection_that_uvloop_has_found_closed_is_a_lost_connection():
    class Closed:
        def send(self, payload: bytes) -> None:
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>")

        def close(self) -> None: ...

    with pytest.raises(AuthorityUnavailableError, match="connection was lost"):
        await CommitChannel(cast(Channel, Closed())).commit(b"")
