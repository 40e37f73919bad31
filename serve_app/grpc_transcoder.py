"""The Open Inference Protocol over gRPC, transcoded to its HTTP form.

Each message becomes a request of ``/v2`` at the inference service, whose rules, limits and
guarantees apply to it. The edge sends it to the replica that owns its run, which it could not do
with the messages of a stream. So the replicas have one protocol, and no server that few clients
use.

The code of messages and service is that of NVIDIA's client. Source of ``ModelStreamInfer``:
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_sequence.md
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

import grpc
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc.service_pb2_grpc import (
    GRPCInferenceServiceServicer,
    add_GRPCInferenceServiceServicer_to_server,
)

from deployments.http.messages import KEY_HEADER, RUN_HEADER
from deployments.inference.api import MAX_BATCH_BODY
from greenwave.client.call import Exchange, NoReply, Reply, Send
from greenwave.client.tensors import HEADER_LENGTH
from serve_app.errors import CommandError
from serve_app.grpc_messages import first_run, grpc_response, http_request, may_have_key

MAX_CALLS = 1000  # unary calls and streams at once
TIMEOUT_S = 10.0  # of a call whose client sets none
CONNECT_S = 1.0
GRACE_S = 5.0  # for calls in progress when the server stops

_FORWARDED = ("authorization", "traceparent", "x-request-id")
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
        try:
            head, blobs = http_request(request)
        except ValueError as error:
            raise CallError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        headers = _forwarded(given) | {
            "content-type": "application/octet-stream",
            HEADER_LENGTH: str(len(head)),
        }
        run = given.get(RUN_HEADER.lower()) or first_run(request)
        if run is not None:
            headers[RUN_HEADER] = run
        if key is None and may_have_key(request):
            key = str(uuid.uuid4())
        if key is not None:
            headers[KEY_HEADER] = key
        path = f"{_model_path(request.model_name, request.model_version)}/infer"
        body = b"".join((head, *blobs))
        return grpc_response(await self._send("POST", path, context, headers, body))

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
