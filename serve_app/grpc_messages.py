"""Messages of the Open Inference Protocol in gRPC, as requests and responses in HTTP.

Source: https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/open_inference_grpc.proto
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tritonclient.grpc import service_pb2 as messages

from deployments.http.messages import is_name
from deployments.stateful.row import RECEIPTS
from greenwave.client.call import Reply
from greenwave.client.tensors import HEADER_LENGTH

_LENGTH = struct.Struct("<I")
_UINT64 = struct.Struct("<Q")
_CONTENTS = {
    "FP32": "fp32_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "BYTES": "bytes_contents",
}


def http_request(request: Any) -> tuple[bytes, list[bytes]]:
    """Return the JSON of a request, and its binary tensors.

    Raises:
        ValueError: the message breaks the protocol.
    """
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        raise ValueError(
            f"raw_input_contents has {len(raw)} tensors, for {len(request.inputs)} inputs"
        )
    inputs: list[dict[str, Any]] = []
    for number, tensor in enumerate(request.inputs):
        part = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
        }
        if raw:
            part["parameters"] = {"binary_data_size": len(raw[number])}
        else:
            part["data"] = _typed_contents(tensor)
        inputs.append(part)
    head: dict[str, Any] = {
        "parameters": {**_parameters(request.parameters), "binary_data_output": True},
        "inputs": inputs,
    }
    if request.id:
        head["id"] = request.id
    if request.outputs:
        head["outputs"] = [{"name": output.name} for output in request.outputs]
    return json.dumps(head).encode(), raw


def _typed_contents(tensor: Any) -> list[Any]:
    field = _CONTENTS.get(tensor.datatype)
    if field is None:
        return []  # the service refuses the data type, and lists those that it knows
    values = list(getattr(tensor.contents, field))
    if tensor.datatype == "BYTES":
        return [value.decode(errors="replace") for value in values]
    return values


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: getattr(value, value.WhichOneof("parameter_choice"))
        for name, value in given.items()
        if value.WhichOneof("parameter_choice")
    }


def may_have_key(request: Any) -> bool:
    """Return whether an idempotency key is sure to fit: a state remembers so many of its rows."""
    if any(tensor.name == "request_id" for tensor in request.inputs):
        return True
    rows = next((each.shape[:1] for each in request.inputs if each.name == "observation"), [0])
    return bool(rows) and rows[0] <= RECEIPTS


def first_run(request: Any) -> str | None:
    """Return the run by which a request is sent to a replica: of its sequence, or first row."""
    run: str | None = None
    if "sequence_id" in request.parameters:
        run = str(_parameters(request.parameters).get("sequence_id"))
    for number, tensor in enumerate(request.inputs):
        if tensor.name != "run":
            continue
        if request.raw_input_contents:
            with suppress(struct.error, IndexError):
                run = _first_value(tensor.datatype, request.raw_input_contents[number])
        elif values := _typed_contents(tensor):
            run = str(values[0])
    return run if run is not None and is_name(run) else None


def _first_value(datatype: str, raw: bytes) -> str:
    if datatype == "UINT64":
        return str(_UINT64.unpack_from(raw)[0])
    end = _LENGTH.size + _LENGTH.unpack_from(raw)[0]
    return raw[_LENGTH.size : end].decode(errors="replace")


def grpc_response(reply: Reply) -> Any:
    head_length = int(reply.headers.get(HEADER_LENGTH, len(reply.body)))
    head = json.loads(reply.body[:head_length])
    response = messages.ModelInferResponse(
        model_name=head["model_name"],
        model_version=head["model_version"],
        id=head.get("id", ""),
    )
    at = head_length
    for output in head["outputs"]:
        response.outputs.add(
            name=output["name"], datatype=output["datatype"], shape=output["shape"]
        )
        end = at + output["parameters"]["binary_data_size"]
        response.raw_output_contents.append(reply.body[at:end])
        at = end
    return response
