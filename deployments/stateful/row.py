"""The form of a row: one state with its version, and the receipts of its latest steps.

A row is one record of NumPy's, of fixed size. So the rows of a batch are read, compared, stepped
and written as columns.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deployments.stateful.errors import StateError

RECEIPTS = 64
"""Idempotency keys that are remembered with each state: the newest ones."""

LONGEST_NAME = 480
"""Bytes; a name that is left aside for a variant is longer, and LMDB's keys have 511."""

VERSION_BYTES = 24
"""A row begins with its version: life, step and variant. Two rows of one version are the same."""
ABSENT = bytes(VERSION_BYTES)
"""The version of a row that does not exist."""

HEAD = struct.Struct("<QQIIII")
_ID, _U32 = struct.Struct("<Q"), struct.Struct("<I")
_LOW = np.uint64(0xFFFFFFFF)
_HALF = 1 << 31
_FEW = 4  # rows that take less time one by one than as columns

Array = NDArray[Any]


class Key(NamedTuple):
    """The name of one state: an entity, such as a junction, of a run."""

    run: str
    entity: str


def name_of(run: str, entity: str) -> bytes:
    """Return the name of a state in the table, where the states of a run stand together.

    Raises:
        StateError: it is too long, or has characters that the table needs for itself.
    """
    name = f"{run}\0{entity}".encode()
    if len(name) > LONGEST_NAME or b"\n" in name or name.count(b"\0") != 1 or name < b"\2":
        raise StateError("A run and its entity have at most 480 bytes, and no control characters")
    return name


def key_of(name: bytes) -> Key:
    """Return the key of a name; of one that is kept aside for a variant, the state's."""
    run, entity, *_ = name.decode().split("\0")
    return Key(run, entity)


def aside(name: bytes, variant: int) -> bytes:
    """Return the name under which a state is kept while another variant of the model steps."""
    return b"%b\0%08x" % (name, variant)


def variant_of(namespace: str) -> int:
    """Return the number of a model's variant, from its name; 0 for the unnamed one."""
    return _digest(namespace, 4) if namespace else 0


def id_of(request_id: str) -> int:
    """Return the digest by which an idempotency key is remembered; 0 stands for none."""
    return _digest(request_id, 8) or 1


def _digest(text: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "little")


class RowForm:
    """The form of the rows of one model.

    Args:
        state: data type and shape of a state, as ``np.dtype(("f4", 128))``.
        output: data type of an output that a receipt keeps.

    Attributes:
        dtype: ``life`` tells a state from an earlier one of the same key; ``step`` counts its
            steps; ``variant`` is the model's that made them; ``used`` is the second since boot of
            its latest one; ``n`` counts the receipts, which take turns in the columns ``ids``,
            ``prints`` (of the inputs), ``steps`` (modulo 2^32) and ``outputs``.
    """

    def __init__(self, state: np.dtype[Any], output: np.dtype[Any]) -> None:
        self.state, self.output = np.dtype(state), np.dtype(output)
        self.dtype = np.dtype(
            [
                ("life", "<u8"),
                ("step", "<u8"),
                ("variant", "<u4"),
                ("zero", "<u4"),  # of the version, so that it is three numbers of 8 bytes
                ("used", "<u4"),
                ("n", "<u4"),
                ("state", self.state),
                ("ids", "<u8", RECEIPTS),
                ("prints", "<u4", RECEIPTS),
                ("steps", "<u4", RECEIPTS),
                ("outputs", self.output, RECEIPTS),
            ]
        )
        self.size = self.dtype.itemsize
        self._places = {name: self.dtype.fields[name][1] for name in self.dtype.names or ()}  # type: ignore[index]
        self.empty = bytes(self.size)

    def __reduce__(self) -> tuple[type[RowForm], tuple[np.dtype[Any], np.dtype[Any]]]:
        return RowForm, (self.state, self.output)

    def __str__(self) -> str:
        return f"{self.state.str}{self.state.shape} {self.output.descr}"

    def rows(self, raw: bytearray | bytes) -> Array:
        """Return rows from their bytes; those of a bytearray can be written to."""
        return np.frombuffer(raw, self.dtype)

    # A single row takes a third of the time as bytes.

    def state_of(self, raw: bytearray) -> Array:
        """Return a copy of the state (1, \\*shape) of one row."""
        start, end = self._places["state"], self._places["ids"]
        return np.frombuffer(bytes(raw[start:end]), self.state.base).reshape(1, *self.state.shape)

    def has_receipt(self, raw: bytearray, id: int) -> bool:
        """Return whether one row remembers a step with this idempotency key."""
        start, end = self._places["ids"], self._places["prints"]
        digest = _ID.pack(id)
        at = raw.find(digest, start, end)
        while at >= 0 and (at - start) % _ID.size:  # of two neighbours, not one
            at = raw.find(digest, at + 1, end)
        return at >= 0

    def put_state(self, raw: bytearray, state: Array, now: int) -> int:
        """Put the state after a step into one row, and return the number of the step."""
        life, step, variant, zero, _, n = HEAD.unpack_from(raw)
        HEAD.pack_into(raw, 0, life, step + 1, variant, zero, now, n)
        raw[self._places["state"] : self._places["ids"]] = state.tobytes()
        return int(step + 1)

    def put_receipt(self, raw: bytearray, id: int, print: int, output: bytes) -> None:
        """Remember the latest step of one row, in place of the oldest one."""
        life, step, variant, zero, used, n = HEAD.unpack_from(raw)
        slot, places, size = n % RECEIPTS, self._places, self.output.itemsize
        _ID.pack_into(raw, places["ids"] + _ID.size * slot, id)
        _U32.pack_into(raw, places["prints"] + _U32.size * slot, print)
        _U32.pack_into(raw, places["steps"] + _U32.size * slot, step & 0xFFFFFFFF)
        at = places["outputs"] + size * slot
        raw[at : at + size] = output
        HEAD.pack_into(raw, 0, life, step, variant, zero, used, (n + 1) & 0xFFFFFFFF)

    def zeros(self, n_rows: int) -> Array:
        return np.zeros(n_rows, self.dtype)


def find_receipts(rows: Array, at: Any, ids: NDArray[np.uint64]) -> NDArray[np.intp] | None:
    """Return for each of B steps the place of its receipt, or -1; None if none has one.

    Args:
        at: the B rows of the steps.
        ids: (B,) digests of the idempotency keys, 0 for none.
    """
    hits = rows["ids"][at] == ids[:, None]
    if not hits.any():
        return None
    places: NDArray[np.intp] = hits.argmax(axis=1)
    places[~hits.any(axis=1) | (ids == 0)] = -1
    return places


def add_receipts(
    rows: Array,
    places: Sequence[int],
    ids: NDArray[np.uint64],
    prints: NDArray[np.uint32],
    outputs: Array,
) -> None:
    """Remember B steps that were just made, each in place of the oldest of its row.

    Args:
        places: of B different rows.
        ids: (B,), none of them 0.
    """
    if len(places) <= _FEW:
        columns = [rows[name] for name in ("n", "ids", "prints", "steps", "outputs", "step")]
        n, to_ids, to_prints, to_steps, to_outputs, steps = columns
        for number, place in enumerate(places):
            slot = n[place] % RECEIPTS
            to_ids[place, slot] = ids[number]
            to_prints[place, slot] = prints[number]
            to_steps[place, slot] = steps[place] & _LOW
            to_outputs[place, slot] = outputs[number]
            n[place] += 1
        return
    at = np.array(places, np.intp)
    n = rows["n"][at]
    slots = (n % RECEIPTS).astype(np.intp)
    rows["ids"][at, slots] = ids
    rows["prints"][at, slots] = prints
    rows["steps"][at, slots] = rows["step"][at] & _LOW
    rows["outputs"][at, slots] = outputs
    rows["n"][at] = n + 1


def without_receipts(rows: Array) -> Array:
    """Return a copy of rows that remembers no idempotency key."""
    rows = rows.copy()
    for column in ("ids", "prints", "steps", "outputs", "n"):
        rows[column] = np.zeros((), rows.dtype[column])
    return rows


def receipt(row: Any, place: int) -> tuple[int, int, tuple[Any, ...]]:
    """Return print, step and output of a receipt."""
    step, low = int(row["step"]), int(row["steps"][place])
    step += (low - step + _HALF) % (2 * _HALF) - _HALF  # after a change of variant it may be later
    return int(row["prints"][place]), step, row["outputs"][place].item()


def versions(rows: Array) -> list[bytes]:
    """Return the version of each row, as its first bytes are."""
    heads = np.frombuffer(rows, np.uint8).reshape(len(rows), -1)[:, :VERSION_BYTES].tobytes()
    return [heads[at : at + VERSION_BYTES] for at in range(0, len(heads), VERSION_BYTES)]


def copies_of(rows: Array) -> Sequence[memoryview]:
    """Return the bytes of each row, without copying them."""
    view, size = memoryview(rows.view(np.uint8)), rows.dtype.itemsize  # type: ignore[arg-type]
    return [view[at : at + size] for at in range(0, len(view), size)]
