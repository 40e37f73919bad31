"""The form of a row: one state with its version, and the receipts of its latest steps.

A row is one record of NumPy's, of fixed size. The rows of a large batch are read, compared, stepped
and written as columns (:class:`ManyRows`), and few of them as bytes, which takes a third of the
time (:class:`FewRows`).
"""

from __future__ import annotations

import hashlib
import re
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

FEW = 16
"""Rows that take less time as bytes than as columns."""

_HEAD, _RECEIPT, _ID = struct.Struct("<QQIIII"), struct.Struct("<II"), struct.Struct("<Q")
_is_row, _ROW_DIGITS = re.compile("0|[1-9][0-9]*").fullmatch, 5
_LOW = 0xFFFFFFFF
_HALF = 1 << 31

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
    """Return the digest by which an idempotency key is remembered; 0 stands for none.

    Those of ``KEY.0``, ``KEY.1`` and so on follow one another, so that :func:`numbered_ids` takes
    one digest for all rows of a call.
    """
    key, _, row = request_id.rpartition(".")
    if not key or len(row) > _ROW_DIGITS or not _is_row(row):
        return _digest(request_id, 8) or 1
    return (_id_of_first(key) + int(row)) % (1 << 64) or 1


def numbered_ids(key: str, n_rows: int) -> NDArray[np.uint64]:
    """Return the digests of ``KEY.0`` to ``KEY.{n_rows - 1}``."""
    ids = np.arange(n_rows, dtype=np.uint64) + np.uint64(_id_of_first(key))
    ids[ids == 0] = 1
    return ids


def _id_of_first(key: str) -> int:
    return _digest(f"{key}\0", 8)  # which no key has at its end


def _digest(text: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "little")


class Receipt(NamedTuple):
    """What a row remembers of a step: a digest of its input, its number and its output."""

    print: int
    step: int
    output: tuple[Any, ...]


class Keyed(NamedTuple):
    """Steps with idempotency keys.

    Attributes:
        ids: digests of the keys, 0 for none; a list or (B,).
        prints: digests of the inputs, likewise.
    """

    ids: Any
    prints: Any


class RowForm:
    """The form of the rows of one model.

    Args:
        state: data type and shape of a state, as ``np.dtype(("f4", 128))``.
        output: data type of an output that a receipt keeps.

    Attributes:
        dtype: ``life`` tells a state from an earlier one of the same key; ``step`` counts its
            steps; ``variant`` is the model's that made them; ``used`` is the second since boot of
            its latest one; ``n`` counts the receipts, which take turns in the places of ``ids`` and
            ``receipts``: ``print`` (of the input), ``step`` (modulo 2^32) and ``output``.
    """

    def __init__(self, state: np.dtype[Any], output: np.dtype[Any]) -> None:
        self.state, self.output = np.dtype(state), np.dtype(output)
        receipt = np.dtype([("print", "<u4"), ("step", "<u4"), ("output", self.output)])
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
                ("receipts", receipt, RECEIPTS),
            ]
        )
        self.size = self.dtype.itemsize
        self.receipt_size = receipt.itemsize
        self.receipts_at = self.size - RECEIPTS * self.receipt_size
        self.ids_at = self.receipts_at - RECEIPTS * _ID.size
        self.empty = bytes(self.size)

    def __reduce__(self) -> tuple[type[RowForm], tuple[np.dtype[Any], np.dtype[Any]]]:
        return RowForm, (self.state, self.output)

    def __str__(self) -> str:
        return f"{self.state.str}{self.state.shape} {self.output.descr}"

    def rows(self, raw: bytearray | bytes) -> Array:
        """Return rows as an array of records; those of a bytearray can be written to."""
        return np.frombuffer(raw, self.dtype)

    def of(self, raws: Sequence[Any]) -> FewRows | ManyRows:
        """Return rows that can be stepped, from the bytes of each."""
        if len(raws) <= FEW:
            return FewRows(self, [bytearray(raw) for raw in raws])
        return ManyRows(self, bytearray().join(raws))

    def without_receipts(self, raw: bytes) -> bytes:
        """Return a row that remembers no idempotency key."""
        first, n = self.ids_at, _HEAD.size - 4
        return raw[:n] + bytes(4) + raw[_HEAD.size : first] + bytes(self.size - first)


class FewRows:
    """Rows that are stepped as bytes.

    Attributes:
        versions: as they were.
    """

    def __init__(self, form: RowForm, raws: list[bytearray]) -> None:
        self.raws: Sequence[Any] = raws
        self.versions = [bytes(raw[:VERSION_BYTES]) for raw in raws]
        self._form = form
        self._state = slice(_HEAD.size, form.ids_at)

    def begin(self, at: int, variant: int, step: int, state: Array) -> None:
        """Let a row have another state of a variant of the model."""
        raw = self.raws[at]
        life, _, _, _, used, n = _HEAD.unpack_from(raw)
        _HEAD.pack_into(raw, 0, life, step, variant, 0, used, n)
        raw[self._state] = state.tobytes()

    def live(self, at: int, life: int) -> None:
        """Give a new row its life."""
        _ID.pack_into(self.raws[at], 0, life)

    def states(self, at: Sequence[int]) -> Array:
        """Return copies of the states of B rows, (B, \\*shape)."""
        raws, some, form = self.raws, self._state, self._form.state
        joined = b"".join([raws[place][some] for place in at])
        return np.frombuffer(joined, form.base).reshape(len(at), *form.shape)

    def steps(self, at: Sequence[int]) -> list[int]:
        """Return the number of the latest step of B rows."""
        return [_HEAD.unpack_from(self.raws[place])[1] for place in at]

    def advance(
        self,
        at: Sequence[int],
        states: Array,
        now: int,
        keyed: Keyed | None = None,
        outputs: Array | None = None,
    ) -> list[int]:
        """Put the states after a step into B different rows, and return the numbers of the steps.

        Args:
            states: (B, \\*shape).
            now: second since boot.
            keyed: what is remembered of the steps, each in place of the oldest one of its row.
            outputs: (B,), to be remembered as well.
        """
        some, form, steps = self._state, self._form, list[int]()
        after, size = states.tobytes(), some.stop - some.start
        kept, kept_size = b"" if outputs is None else outputs.tobytes(), form.output.itemsize
        for number, place in enumerate(at):
            raw = self.raws[place]
            life, step, variant, zero, _, n = _HEAD.unpack_from(raw)
            step += 1
            if keyed is not None and keyed.ids[number]:
                slot = n % RECEIPTS
                _ID.pack_into(raw, form.ids_at + _ID.size * slot, keyed.ids[number])
                where = form.receipts_at + form.receipt_size * slot
                _RECEIPT.pack_into(raw, where, keyed.prints[number], step & _LOW)
                where += _RECEIPT.size
                raw[where : where + kept_size] = kept[number * kept_size :][:kept_size]
                n = (n + 1) & _LOW
            _HEAD.pack_into(raw, 0, life, step, variant, zero, now, n)
            raw[some] = after[number * size : (number + 1) * size]
            steps.append(step)
        return steps

    def receipts(self, at: Sequence[int], ids: Sequence[int]) -> dict[int, Receipt]:
        """Return the receipts of those of B steps that were made before, by their number.

        Args:
            at: their rows.
            ids: digests of their idempotency keys, 0 for none.
        """
        start, end = self._form.ids_at, self._form.receipts_at
        found: dict[int, Receipt] = {}
        for number, (place, id) in enumerate(zip(at, ids, strict=True)):
            raw, digest = self.raws[place], _ID.pack(id)
            where = raw.find(digest, start, end) if id else -1
            while where >= 0 and (where - start) % _ID.size:  # of two neighbours, not one
                where = raw.find(digest, where + 1, end)
            if where >= 0:
                (row,) = self._form.rows(raw)
                found[number] = _receipt(row, (where - start) // _ID.size)
        return found


class ManyRows:
    """Rows that are stepped as columns, with the methods of :class:`FewRows`."""

    def __init__(self, form: RowForm, raw: bytearray) -> None:
        self._rows = form.rows(raw)
        view, size = memoryview(raw), form.size
        self.raws: Sequence[Any] = [view[at : at + size] for at in range(0, len(raw), size)]
        heads = np.frombuffer(raw, np.uint8).reshape(-1, size)[:, :VERSION_BYTES].tobytes()
        at = range(0, len(heads), VERSION_BYTES)
        self.versions = [heads[each : each + VERSION_BYTES] for each in at]

    def begin(self, at: int, variant: int, step: int, state: Array) -> None:
        rows = self._rows
        rows["variant"][at], rows["step"][at], rows["state"][at] = variant, step, state

    def live(self, at: int, life: int) -> None:
        self._rows["life"][at] = life

    def states(self, at: Sequence[int]) -> Array:
        states: Array = self._rows["state"][_index(at)].copy()
        return states

    def steps(self, at: Sequence[int]) -> list[int]:
        steps: list[int] = self._rows["step"][_index(at)].tolist()
        return steps

    def advance(
        self,
        at: Sequence[int],
        states: Array,
        now: int,
        keyed: Keyed | None = None,
        outputs: Array | None = None,
    ) -> list[int]:
        places, rows = _index(at), self._rows
        rows["state"][places] = states
        rows["used"][places] = now
        rows["step"][places] += np.uint64(1)
        if keyed is not None and outputs is not None:
            ids = np.array(keyed.ids, np.uint64)
            own = np.flatnonzero(ids)
            places = np.array(at, np.intp)[own]
            n, receipts = rows["n"][places], rows["receipts"]
            where = places, (n % RECEIPTS).astype(np.intp)
            rows["ids"][where] = ids[own]
            receipts["print"][where] = np.array(keyed.prints, np.uint32)[own]
            receipts["step"][where] = rows["step"][places] & np.uint64(_LOW)
            receipts["output"][where] = outputs[own]
            rows["n"][places] = n + np.uint32(1)
        return self.steps(at)

    def receipts(self, at: Sequence[int], ids: Sequence[int]) -> dict[int, Receipt]:
        places, wanted = _index(at), np.array(ids, np.uint64)
        hits = self._rows["ids"][places] == wanted[:, None]
        if not hits.any():
            return {}
        slots, numbers = hits.argmax(axis=1), np.flatnonzero(hits.any(axis=1) & (wanted != 0))
        rows = self._rows[places]
        return {int(number): _receipt(rows[number], int(slots[number])) for number in numbers}


def _index(at: Sequence[int]) -> Any:
    return slice(at.start, at.stop) if isinstance(at, range) else np.array(at, np.intp)


def _receipt(row: Any, slot: int) -> Receipt:
    found = row["receipts"][slot]
    step, low = int(row["step"]), int(found["step"])
    step += (low - step + _HALF) % (2 * _HALF) - _HALF  # after a change of variant it may be later
    return Receipt(int(found["print"]), step, found["output"].item())
