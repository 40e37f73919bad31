"""Requests and responses of the Open Inference Protocol, version 2, in JSON and in binary.

Sources: https://github.com/kserve/open-inference-protocol, and its extension for binary tensors,
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from deployments.http.messages import JSON, Answer
from deployments.inference.errors import InferenceError, first_fault

HEADER_LENGTH = b"inference-header-content-length"
MAX_TENSORS = 16
_LONGEST_KEPT = 256 << 10

_LENGTH = struct.Struct("<I")
_TYPES: dict[str, np.dtype[Any]] = {
    "FP32": np.dtype("<f4"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "UINT64": np.dtype("<u8"),
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}

Values = NDArray[Any] | Sequence[bytes]
"""The elements of a tensor in one dimension; bytes for the data type BYTES. They cannot change
where they are a tuple, which is the same for the same bytes."""

Outputs = Mapping[str, NDArray[Any] | list[bytes]]


class InvalidTensorError(InferenceError):
    """The request breaks the protocol; nothing was stepped."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    name: str = Field(max_length=100)
    parameters: dict[str, Any] = Field(default_factory=dict, max_length=MAX_TENSORS)


class InputTensor(_Part):
    """An input: ``data``, or as many bytes behind the header as a parameter says."""

    shape: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=8)]
    datatype: str = Field(max_length=20)
    data: list[Any] | None = None


class OutputRequest(_Part):
    """An output that is asked for."""


class InferRequest(BaseModel):
    """The JSON of an inference request."""

    model_config = ConfigDict(strict=True, frozen=True)

    id: str | None = Field(None, max_length=200)
    parameters: dict[str, Any] = Field(default_factory=dict, max_length=MAX_TENSORS)
    inputs: Annotated[list[InputTensor], Field(min_length=1, max_length=MAX_TENSORS)]
    outputs: Annotated[list[OutputRequest] | None, Field(max_length=MAX_TENSORS)] = None


class OutputTensor(_Part):
    shape: list[int]
    datatype: str
    data: list[Any] | None = None


class InferResponse(BaseModel):
    """The JSON of an inference response."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


class ProtocolError(BaseModel):
    error: str


_REQUEST = TypeAdapter(InferRequest)


class Tensor(NamedTuple):
    """An input.

    Attributes:
        values: as many as the shape says.
    """

    datatype: str
    shape: tuple[int, ...]
    values: Values


def read_request(body: bytes, header_length: str | None) -> tuple[InferRequest, dict[str, Tensor]]:
    """Read a request and its inputs by name.

    Args:
        header_length: bytes of the JSON at the beginning of the body; None for all.

    Raises:
        InvalidTensorError: it breaks the protocol.
    """
    end = len(body)
    if header_length is not None:
        is_length = header_length.isdecimal() and len(header_length) <= len(str(end))
        if not is_length or int(header_length) > end:
            raise InvalidTensorError(
                f"Inference-Header-Content-Length is not from 0 to {end}, the body's length"
            )
        end = int(header_length)
    try:
        request = _REQUEST.validator.validate_json(memoryview(body)[:end].tobytes())
    except ValidationError as error:
        raise InvalidTensorError(first_fault(error, "body")) from None
    tensors: dict[str, Tensor] = {}
    for part in request.inputs:
        if part.name in tensors:
            raise InvalidTensorError(f"The input {part.name!r} comes twice")
        size = part.parameters.get("binary_data_size")
        if size is None:
            values = _from_json(part)
        else:
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise InvalidTensorError(
                    f"binary_data_size of {part.name!r} is not a length in bytes"
                )
            if part.data is not None:
                raise InvalidTensorError(f"{part.name!r} has data and binary_data_size")
            if end + size > len(body):
                raise InvalidTensorError(
                    f"{part.name!r} has {len(body) - end} bytes, and binary_data_size is {size}"
                )
            values = _from_bytes(part, memoryview(body)[end : end + size])
            end += size
        wanted = math.prod(part.shape)
        if len(values) != wanted:
            raise InvalidTensorError(
                f"{part.name!r} has {len(values)} values, and the shape {part.shape} has {wanted}"
            )
        tensors[part.name] = Tensor(part.datatype, tuple(part.shape), values)
    if end != len(body):
        raise InvalidTensorError(f"{len(body) - end} bytes follow the last tensor")
    return request, tensors


def _from_json(part: InputTensor) -> Values:
    if part.data is None:
        raise InvalidTensorError(f"{part.name!r} has neither data nor binary_data_size")
    values: Sequence[Any] = part.data
    while values and isinstance(values[0], list):  # row-major, and nested or not
        if not all(isinstance(each, list) for each in values):
            raise InvalidTensorError(f"The data of {part.name!r} are not a tensor")
        values = list(chain.from_iterable(values))
    kinds = set(map(type, values))
    if part.datatype == "BYTES" and kinds <= {str}:
        return [each.encode() for each in values]
    if part.datatype != "BYTES" and kinds <= ({int, float} if _dtype(part).kind == "f" else {int}):
        try:
            with np.errstate(over="ignore"):  # what is infinite then is refused later
                return np.array(values, _dtype(part))
        except OverflowError:
            pass
    raise InvalidTensorError(f"The data of {part.name!r} are not {part.datatype}")


def _from_bytes(part: InputTensor, data: memoryview) -> Values:
    if part.datatype != "BYTES":
        dtype = _dtype(part)
        if len(data) % dtype.itemsize:
            raise InvalidTensorError(
                f"{part.name!r} has {len(data)} bytes, which is not a multiple of {dtype.itemsize}"
            )
        return np.frombuffer(data, dtype)
    read = _strings_of if len(data) <= _LONGEST_KEPT else _strings_of.__wrapped__
    strings = read(data.tobytes())
    if strings is None:
        raise InvalidTensorError(f"The bytes of {part.name!r} are cut short")
    return strings


@lru_cache(maxsize=32)  # a simulation has the same names in all of its calls
def _strings_of(raw: bytes) -> tuple[bytes, ...] | None:
    values, at, end, read = list[bytes](), 0, len(raw), _LENGTH.unpack_from
    while at + 4 <= end:
        begin = at + 4
        at = begin + read(raw, at)[0]
        values.append(raw[begin:at])
    return tuple(values) if at == end else None


def _dtype(part: InputTensor) -> np.dtype[Any]:
    try:
        return _TYPES[part.datatype]
    except KeyError:
        known = ", ".join((*_TYPES, "BYTES"))
        raise InvalidTensorError(
            f"{part.name!r} has the datatype {part.datatype[:20]!r}; known: {known}"
        ) from None


def render_response(head: Mapping[str, Any], request: InferRequest, outputs: Outputs) -> Answer:
    """Render outputs in the form and order that the request asks for.

    Args:
        head: model, version and id.
        outputs: by name; all of them where the request names none.
    """
    described, blobs = [], []
    is_binary = request.parameters.get("binary_data_output", False)
    asked = [(each.name, each.parameters) for each in request.outputs or ()]
    for name, parameters in asked or [(name, {}) for name in outputs]:
        values = outputs[name]
        if isinstance(values, list):
            form = {"datatype": "BYTES", "shape": [len(values)]}
        else:
            form = {"datatype": _NAMES[values.dtype], "shape": list(values.shape)}
        part: dict[str, Any] = {"name": name, **form}
        if parameters.get("binary_data", is_binary):
            blobs.append(_packed(values) if isinstance(values, list) else values.tobytes())
            part["parameters"] = {"binary_data_size": len(blobs[-1])}
        elif isinstance(values, list):
            part["data"] = [each.decode() for each in values]
        else:
            part["data"] = values.ravel().tolist()
            if values.dtype.kind == "f" and np.isnan(values).any():  # which JSON has not
                part["data"] = [None if each != each else each for each in part["data"]]
        described.append(part)
    header = json.dumps({**head, "outputs": described}).encode()
    if not blobs:
        return 200, header, (JSON,)
    headers = (
        (b"content-type", b"application/octet-stream"),
        (HEADER_LENGTH, b"%d" % len(header)),
    )
    return 200, b"".join((header, *blobs)), headers


def _packed(values: list[bytes]) -> bytes:
    if not any(values):
        return bytes(_LENGTH.size * len(values))
    return b"".join(part for each in values for part in (_LENGTH.pack(len(each)), each))
