"""The Open Inference Protocol over gRPC, transcoded to its HTTP form.

Each message becomes a request of ``/v2`` at the inference service, whose rules, limits and
guarantees apply to it. The edge sends it to the replica that owns its run, which it could not do
with the messages of a stream. So the replicas have one protocol, and no server that few clients
use.

Sources: https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/open_inference_grpc.proto
for the messages, whose code NVIDIA's client has, and
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_sequence.md
for ``ModelStreamInfer``.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import quote

import grpc
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc.service_pb2_grpc import (
    GRPCInferenceServiceServicer,
    add_GRPCInferenceServiceServicer_to_server,
)

from deployments.http.messages import KEY_HEADER, RUN_HEADER, is_name
from deployments.inference.api import MAX_BATCH_BODY
from deployments.stateful.protocol import MAX_RECEIPTS
from greenwave.client.aio import Exchange
from greenwave.client.core.call import NoReply, Reply, Send
from serve_app.errors import CommandError

MAX_CALLS = 1000  # unary calls and streams at once
TIMEOUT_S = 10.0  # of a call whose client sets none
CONNECT_S = 1.0
GRACE_S = 5.0  # for calls in progress when the server stops

_FORWARDED = ("authorization", "traceparent", "x-request-id")
_HEADER_LENGTH = "inference-header-content-length"
_LENGTH = struct.Struct("<I")
_UINT64 = struct.Struct("<Q")
_CONTENTS = {
    "FP32": "fp32_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "BYTES": "bytes_contents",
}
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}

Context: TypeAlias = Any  # grpc.aio.ServicerContext; gRPC has no types


class CallError(Exception):
    """A call that is answered with a gRPC status; ``str(error)`` is its detail."""

    def __init__(self, code: grpc.StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Transcoder(GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Answers gRPC calls from an inference service.

    Args:
        url: base URL of the inference service.
        exchange: sends HTTP requests.
    """

    def __init__(self, url: str, exchange: Exchange) -> None:
        self._url = url
        self._exchange = exchange

    async def ServerLive(self, request: Any, context: Context) -> Any:
        return messages.ServerLiveResponse(live=await self._is("/v2/health/live", context))

    async def ServerReady(self, request: Any, context: Context) -> Any:
        return messages.ServerReadyResponse(ready=await self._is("/v2/health/ready", context))

    async def ModelReady(self, request: Any, context: Context) -> Any:
        path = _model_path(request.name, request.version)
        return messages.ModelReadyResponse(ready=await self._is(f"{path}/ready", context))

    async def ServerMetadata(self, request: Any, context: Context) -> Any:
        return messages.ServerMetadataResponse(**await self._described("/v2", context))

    async def ModelMetadata(self, request: Any, context: Context) -> Any:
        path = _model_path(request.name, request.version)
        return messages.ModelMetadataResponse(**await self._described(path, context))

    async def ModelInfer(self, request: Any, context: Context) -> Any:
        given = _metadata(context)
        try:
            return await self._infer(request, context, given, given.get(KEY_HEADER.lower()))
        except CallError as error:
            await context.abort(error.code, str(error))

    async def ModelStreamInfer(
        self, requests: AsyncIterator[Any], context: Context
    ) -> AsyncIterator[Any]:
        """Answer the messages of a stream in their order; one that fails does not end it."""
        given = _metadata(context)
        async for request in requests:
            try:
                answer = await self._infer(request, context, given)
            except CallError as error:
                unanswered = messages.ModelInferResponse(id=request.id)
                yield messages.ModelStreamInferResponse(
                    error_message=str(error), infer_response=unanswered
                )
            else:
                yield messages.ModelStreamInferResponse(infer_response=answer)

    async def _infer(
        self, request: Any, context: Context, given: Mapping[str, str], key: str | None = None
    ) -> Any:
        head, blobs = _http_request(request)
        headers = _forwarded(given) | {
            "content-type": "application/octet-stream",
            _HEADER_LENGTH: str(len(head)),
        }
        run = given.get(RUN_HEADER.lower()) or _first_run(request)
        if run is not None:
            headers[RUN_HEADER] = run
        if key is None and _may_have_key(request):
            key = str(uuid.uuid4())
        if key is not None:
            headers[KEY_HEADER] = key
        path = f"{_model_path(request.model_name, request.model_version)}/infer"
        body = b"".join((head, *blobs))
        return _grpc_response(await self._send("POST", path, context, headers, body))

    async def _is(self, path: str, context: Context) -> bool:
        try:
            await self._send("GET", path, context, _forwarded(_metadata(context)))
        except CallError as error:
            if error.code is not grpc.StatusCode.UNAVAILABLE:
                await context.abort(error.code, str(error))
            return False
        return True

    async def _described(self, path: str, context: Context) -> Any:
        try:
            reply = await self._send("GET", path, context, _forwarded(_metadata(context)))
        except CallError as error:
            await context.abort(error.code, str(error))
        return json.loads(reply.body)

    async def _send(
        self,
        method: str,
        path: str,
        context: Context,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> Reply:
        """Return a success.

        Raises:
            CallError: for any other answer, or none.
        """
        left_s = context.time_remaining()
        timeout_s = TIMEOUT_S if left_s is None else max(0.001, min(TIMEOUT_S, left_s))
        send = Send(method, self._url + path, headers, body, timeout_s, min(CONNECT_S, timeout_s))
        reply = await self._exchange(send)
        if isinstance(reply, NoReply):
            effect = "the request may have been carried out or not" if reply.sent else "not sent"
            raise CallError(grpc.StatusCode.UNAVAILABLE, f"{reply.reason}; {effect}")
        if reply.status != 200:
            code = _CODES.get(reply.status, grpc.StatusCode.INTERNAL)
            raise CallError(code, _detail(reply))
        return reply


def _model_path(name: str, version: str) -> str:
    model = f"/v2/models/{quote(name, safe='')}"
    return f"{model}/versions/{quote(version, safe='')}" if version else model


def _metadata(context: Context) -> dict[str, str]:
    """Return the metadata of a call that are text."""
    pairs = context.invocation_metadata() or ()
    return {name: value for name, value in pairs if isinstance(value, str)}


def _forwarded(given: Mapping[str, str]) -> dict[str, str]:
    return {name: given[name] for name in _FORWARDED if name in given}


def _http_request(request: Any) -> tuple[bytes, list[bytes]]:
    """Return the JSON of a request, and its binary tensors.

    Raises:
        CallError: the message breaks the protocol.
    """
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        raise CallError(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"raw_input_contents has {len(raw)} tensors, for {len(request.inputs)} inputs",
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


def _may_have_key(request: Any) -> bool:
    """Return whether an idempotency key is sure to fit: a state remembers so many of its rows."""
    if any(tensor.name == "request_id" for tensor in request.inputs):
        return True
    rows = next((each.shape[:1] for each in request.inputs if each.name == "observation"), [0])
    return bool(rows) and rows[0] <= MAX_RECEIPTS


def _first_run(request: Any) -> str | None:
    """Return the run whose owner a request is sent to: of its sequence, or of its first row."""
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


def _grpc_response(reply: Reply) -> Any:
    head_length = int(reply.headers.get(_HEADER_LENGTH, len(reply.body)))
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


def _detail(reply: Reply) -> str:
    """Return the sentence of an error in the form of the protocol, or of the service."""
    try:
        error = json.loads(reply.body)
        return str(error.get("error") or error["detail"])
    except (ValueError, KeyError, AttributeError):
        return f"HTTP status {reply.status}"


async def serve(
    transcoder: Transcoder, host: str, port: int, on_start: Callable[[int], None]
) -> None:
    """Serve until the task is cancelled, and then finish the calls in progress.

    Args:
        port: to listen on; 0 for any that is free.
        on_start: called with the port once it listens.

    Raises:
        CommandError: the address cannot be listened on.
    """
    server = grpc.aio.server(
        maximum_concurrent_rpcs=MAX_CALLS,
        options=[
            ("grpc.max_receive_message_length", MAX_BATCH_BODY),
            ("grpc.so_reuseport", 0),  # a second server on the port is an error
        ],
    )
    add_GRPCInferenceServiceServicer_to_server(transcoder, server)
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
        raise CommandError(
            f"Cannot listen on {host}:{port}: the port is taken, or the address is not that of this"
            " machine."
        ) from None
    await server.start()
    try:
        on_start(bound)
        await server.wait_for_termination()
    finally:
        await server.stop(GRACE_S)
