"""How copies of hidden states, and resets, stand in the table of an application."""

from __future__ import annotations

import hashlib
import json
import logging
import struct
from typing import NamedTuple

import numpy as np

from deployments.stateful.layout import Partition
from deployments.stateful.protocol import Floats, Key, Receipt, Receipts, Version
from models.policy.form import HIDDEN_DIM

logger = logging.getLogger("ray.serve")

_COPY = "copy"
_STAMP_BYTES = 8
_EPOCH_BYTES = 16
_HEADER = struct.Struct(f"<{_STAMP_BYTES}sQQq")  # cluster's start, epoch (low half, high), step
_LOW = 2**64 - 1
_HIDDEN_END = _HEADER.size + HIDDEN_DIM * np.dtype(np.float32).itemsize


class Copy(NamedTuple):
    """A state as it was committed. ``hidden`` (128,) is never written into."""

    version: Version
    hidden: Floats
    receipts: Receipts = ()


def copy_row(key: Key) -> str:
    return f"{_COPY}/{key.run}/{key.junction}"


def key_of(row: str) -> Key | None:
    """Return the key of a copy's row; None for another kind of row."""
    kind, _, key = row.partition("/")
    if kind != _COPY:
        return None
    run, _, junction = key.partition("/")
    return Key(run, junction)


def stamp_of(session: str) -> bytes:
    """Return what marks the copies of one start of the cluster."""
    return hashlib.blake2b(session.encode(), digest_size=_STAMP_BYTES).digest()


def pack_copy(copy: Copy, stamp: bytes) -> bytes:
    receipts = json.dumps(copy.receipts).encode() if copy.receipts else b""
    epoch, step = copy.version
    header = _HEADER.pack(stamp, epoch & _LOW, epoch >> 64, step)
    return header + copy.hidden.tobytes() + receipts


def unpack_copy(value: bytes, stamp: bytes | None) -> Copy | None:
    """Return a copy; None when it is of another start of the cluster than ``stamp``, or damaged."""
    if len(value) < _HIDDEN_END:
        logger.error("A copy of a hidden state has %d bytes only", len(value))
        return None
    found, low, high, step = _HEADER.unpack_from(value)
    if stamp is not None and found != stamp:
        return None
    hidden = np.frombuffer(value, np.float32, HIDDEN_DIM, offset=_HEADER.size)
    version = Version(high << 64 | low, step)
    if len(value) == _HIDDEN_END:  # as most are
        return Copy(version, hidden)
    try:
        receipts = json.loads(value[_HIDDEN_END:])
        return Copy(version, hidden, tuple(Receipt(*each) for each in receipts))
    except (ValueError, TypeError) as error:
        logger.error("A copy of a hidden state has damaged receipts: %s", error)
        return None


def resets_prefix(partition: Partition) -> str:
    return f"reset/{partition.generation}/{partition.shard}/"


def reset_row(partition: Partition, run: str) -> str:
    return resets_prefix(partition) + run


def pack_epoch(epoch: int) -> bytes:
    return epoch.to_bytes(_EPOCH_BYTES, "little")


def unpack_epoch(value: bytes) -> int:
    return int.from_bytes(value, "little")
