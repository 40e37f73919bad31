"""Steps of many junctions and runs in one call, as binary tensors of the Open Inference Protocol.

Arrays of NumPy and of libraries with its interface are read without an import of NumPy.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel, Field

from greenwave.client.call import Reply
from greenwave.client.errors import InvalidInputError
from greenwave.client.inputs import MAX_ROWS, checked_key, checked_run, json_bytes, text
from greenwave.client.results import Predictions

HEADER_LENGTH = "inference-header-content-length"

_LENGTH = struct.Struct("<I")
_NOT_NUMBERS = "observations must be rows of numbers"


class Array(Protocol):
    """An array with the interface of NumPy."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def astype(self, dtype: Any, /) -> Any: ...


Row = Sequence[float] | Array
Rows = Sequence[Row] | Array


class Encoded(NamedTuple):
    """Observations and their junctions, encoded.

    Attributes:
        observations: float32, each as long as it was given.
        indexed: whether junctions are agent indices, otherwise names.
    """

    observations: list[bytes]
    junctions: list[bytes]
    indexed: bool


def encode(observations: Rows, junctions: Sequence[str] | Sequence[int] | Array) -> Encoded:
    """Encode the observations of as many junctions.

    Raises:
        InvalidInputError: they are not of the documented form.
    """
    rows = _rows(observations)
    if not 1 <= len(rows) <= MAX_ROWS:
        raise InvalidInputError(f"A call takes 1 to {MAX_ROWS} observations, not {len(rows)}")
    names: list[Any] = _listed(junctions, len(rows), "junctions")
    if isinstance(names[0], str):
        return Encoded(rows, _each(packed_name, names, "junctions"), indexed=False)
    try:
        return Encoded(rows, [struct.pack("<i", index) for index in names], indexed=True)
    except struct.error:
        raise InvalidInputError("junctions must be names, or agent indices") from None


def encode_keys(keys: Sequence[str], n_rows: int) -> list[bytes]:
    """Encode an idempotency key for each row.

    Raises:
        InvalidInputError: they are not of the documented form, or two are the same.
    """
    encoded = [_packed(checked_key(key or "")) for key in _listed(keys, n_rows, "request_ids")]
    if len(set(encoded)) < n_rows:
        raise InvalidInputError("request_ids must differ from each other")
    return encoded


def encode_runs(runs: Sequence[str], n_rows: int) -> list[bytes]:
    """Encode the run of each row."""
    return _each(packed_run, _listed(runs, n_rows, "runs"), "runs")


@lru_cache(maxsize=16_384)  # a simulation has the same junctions and runs in all of its calls
def packed_name(name: str) -> bytes:
    return _packed(text(name, "A junction"))


@lru_cache(maxsize=16_384)
def packed_run(run: str) -> bytes:
    return _packed(checked_run(run))


def request(
    observed: Encoded, runs: list[bytes], keys: list[bytes], sequence_start: bool
) -> tuple[int, bytes]:
    """Return a request as its header's length and its body.

    Args:
        runs, keys: of the rows; empty to send none.
        sequence_start: whether the runs are reset before their first step.
    """
    n_rows, width = len(observed.observations), max(map(len, observed.observations))
    padded = [row.ljust(width, b"\0") for row in observed.observations]
    junction = ("agent_index", "INT32") if observed.indexed else ("junction", "BYTES")
    tensors = [
        ("observation", "FP32", [n_rows, width // 4], padded),
        (*junction, [n_rows], observed.junctions),
        ("run", "BYTES", [n_rows], runs),
        ("request_id", "BYTES", [n_rows], keys),
    ]
    described, blobs = [], []
    for name, datatype, shape, parts in tensors:
        if parts:
            blobs.append(b"".join(parts))
            form = {"name": name, "datatype": datatype, "shape": shape}
            described.append({**form, "parameters": {"binary_data_size": len(blobs[-1])}})
    parameters = {"binary_data_output": True, "sequence_start": sequence_start}
    header = json_bytes({"inputs": described, "parameters": parameters})
    return len(header), b"".join((header, *blobs))


class _Size(BaseModel):
    binary_data_size: int = Field(ge=0)


class _Output(BaseModel):
    name: str
    datatype: str
    parameters: _Size


class _Header(BaseModel):
    outputs: list[_Output]


_NUMBERS = {
    ("action", "INT32"): "i",
    ("confidence", "FP32"): "f",
    ("step", "INT64"): "q",
    ("status", "INT32"): "i",
}
_CODE = ("code", "BYTES")


def read(request_ids: list[str], reply: Reply) -> Predictions:
    """Return the results of a request's rows.

    Raises:
        ValueError: the answer is not of the documented form.
    """
    length, body = reply.headers.get(HEADER_LENGTH, ""), reply.body
    if not length.isdecimal():
        raise ValueError("no length of the header")
    end = int(length)
    tensors = {}
    for output in _Header.model_validate_json(body[:end]).outputs:
        begin, end = end, end + output.parameters.binary_data_size
        tensors[output.name, output.datatype] = body[begin:end]
    if end != len(body) or not tensors.keys() >= {*_NUMBERS, _CODE}:
        raise ValueError("other outputs")
    columns: dict[str, Any] = {
        name: array(form, tensors[name, datatype]) for (name, datatype), form in _NUMBERS.items()
    }
    columns["code"] = _texts(tensors[_CODE])
    if {len(column) for column in columns.values()} != {len(request_ids)}:
        raise ValueError("another number of rows")
    return Predictions(**columns, request_ids=request_ids)


def _texts(data: bytes) -> list[str]:
    if not any(data) and len(data) % 4 == 0:  # as they are while no row fails
        return [""] * (len(data) // 4)
    texts, at = [], 0
    while at + 4 <= len(data):
        begin = at + 4
        at = begin + _LENGTH.unpack_from(data, at)[0]
        texts.append(data[begin:at].decode())
    if at != len(data):
        raise ValueError("texts are cut short")
    return texts


def _rows(observations: Any) -> list[bytes]:
    if hasattr(observations, "astype"):
        if len(observations.shape) != 2:
            raise InvalidInputError(
                f"observations must have a row for each step, not the shape {observations.shape}"
            )
        n_rows, n_values = observations.shape
        data, size = _encoded(observations), 4 * n_values
        return [data[row * size : (row + 1) * size] for row in range(n_rows)]
    try:
        return [_row(row) for row in observations]
    except (TypeError, OverflowError):
        raise InvalidInputError(_NOT_NUMBERS) from None


def _row(row: Any) -> bytes:
    if not hasattr(row, "astype"):
        return array("f", row).tobytes()
    if len(row.shape) != 1:
        raise InvalidInputError(f"An observation must have one dimension, not {len(row.shape)}")
    return _encoded(row)


def _encoded(values: Array) -> bytes:
    try:
        encoded: bytes = values.astype("<f4").tobytes()
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(_NOT_NUMBERS) from None
    return encoded


def _listed(given: Any, n_rows: int, what: str) -> list[Any]:
    try:
        listed = None if isinstance(given, str | bytes) else list(given)
    except TypeError:
        listed = None
    if listed is None or len(listed) != n_rows:
        raise InvalidInputError(f"{what} must be a sequence with one for each observation")
    return listed


def _each(pack: Callable[[str], bytes], names: list[Any], what: str) -> list[bytes]:
    try:
        return [pack(name) for name in names]
    except TypeError:  # it cannot be a key of the cache
        raise InvalidInputError(f"{what} must be texts") from None


def _packed(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"{value!r:.50} has a lone surrogate, which UTF-8 cannot encode"
        ) from None
    return _LENGTH.pack(len(data)) + data
