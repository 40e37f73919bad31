"""Triton's gRPC client, a transcoder, and the inference service's HTTP application."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc.aio as triton
from tritonclient.grpc import service_pb2 as messages
from tritonclient.utils import InferenceServerException

from deployments.inference.api import create_app
from deployments.stateful.calls import ids_of
from greenwave.client.call import NoReply, Reply, Send
from models.networks.shipped import JUNCTIONS
from serve_app.errors import CommandError
from serve_app.grpc_transcoder import Transcoder, serve
from tests.unit.inference.serving import STEP, FakeService, client_of

FIRST, SECOND, *_ = JUNCTIONS


class AppExchange:
    """Sends requests to an application in this event loop.

    Attributes:
        sent: the requests.
        lost: the answer to each, in place of the application's.
    """

    def __init__(self, app: Any) -> None:
        self._client = client_of(app)
        self.sent: list[Send] = []
        self.lost: NoReply | None = None

    async def __call__(self, send: Send) -> Reply | NoReply:
        self.sent.append(send)
        if self.lost is not None:
            return self.lost
        response = await self._client.request(
            send.method, send.url, headers=dict(send.headers), content=send.body
        )
        return Reply(response.status_code, response.headers, response.content)

    async def close(self) -> None:
        await self._client.aclose()


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
async def exchange(service: FakeService) -> AsyncIterator[AppExchange]:
    opened = AppExchange(create_app(service))
    yield opened
    await opened.close()


@contextlib.asynccontextmanager
async def serving(transcoder: Transcoder) -> AsyncIterator[int]:
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = asyncio.create_task(serve(transcoder, "127.0.0.1", 0, started.set_result))
    yield await asyncio.wait_for(started, 10)
    server.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await server


@pytest.fixture
async def client(exchange: AppExchange) -> AsyncIterator[triton.InferenceServerClient]:
    async with (
        serving(Transcoder("http://inference", exchange)) as port,
        triton.InferenceServerClient(f"127.0.0.1:{port}") as opened,
    ):
        yield opened


def inputs_of(*junctions: str, runs: Any = None, obs: float = 0.5) -> list[triton.InferInput]:
    columns: dict[str, Any] = {
        "observation": np.full((len(junctions), 4), obs, np.float32),
        "junction": np.array(junctions, np.object_),
    }
    if runs is not None:
        columns["run"] = np.array(runs)
    inputs = []
    for name, values in columns.items():
        datatype = {"f": "FP32", "u": "UINT64"}.get(values.dtype.kind, "BYTES")
        inputs.append(triton.InferInput(name, list(values.shape), datatype))
        inputs[-1].set_data_from_numpy(values)
    return inputs


async def test_rows_get_their_outputs(client):
    result = await client.infer("policy", inputs_of(FIRST, SECOND), request_id="4711")
    action, confidence = STEP.output
    assert result.as_numpy("action").tolist() == [action] * 2
    assert result.as_numpy("confidence").tolist() == [confidence] * 2
    assert result.as_numpy("step").tolist() == [STEP.step] * 2
    assert result.as_numpy("code").tolist() == [b"", b""]
    assert result.get_response().id == "4711"
    outputs = [triton.InferRequestedOutput(name) for name in ("status", "action")]
    result = await client.infer("policy", inputs_of(FIRST), outputs=outputs)
    assert [each.name for each in result.get_response().outputs] == ["status", "action"]


async def test_typed_contents_are_read_as_raw_ones(client, exchange):
    tensors = [
        messages.ModelInferRequest.InferInputTensor(
            name=name,
            datatype=datatype,
            shape=shape,
            contents=messages.InferTensorContents(**contents),
        )
        for name, datatype, shape, contents in (
            ("observation", "FP32", [1, 2], {"fp32_contents": [0.1, 0.25]}),
            ("agent_index", "INT32", [1], {"int_contents": [3]}),
            ("run", "BYTES", [1], {"bytes_contents": [b"monday"]}),
        )
    ]
    request = messages.ModelInferRequest(model_name="policy", inputs=tensors)
    response = await client._client_stub.ModelInfer(request)
    assert len(response.raw_output_contents) == len(response.outputs) == 5
    assert exchange.sent[-1].headers["X-Simulation-Run"] == "monday"


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ({"inputs": inputs_of(FIRST, SECOND, runs=[b"a", b"b"])}, "a"),
        ({"inputs": inputs_of(FIRST, runs=np.array([7], np.uint64))}, "7"),
        ({"inputs": inputs_of(FIRST), "sequence_id": 12, "sequence_start": True}, "12"),
        ({"inputs": inputs_of(FIRST), "sequence_id": "night", "sequence_start": True}, "night"),
        ({"inputs": inputs_of(FIRST), "headers": {"x-simulation-run": "b"}}, "b"),
        ({"inputs": inputs_of(FIRST)}, None),
    ],
)
async def test_a_request_names_the_run_by_which_the_edge_finds_its_owner(
    client, exchange, given, run
):
    await client.infer("policy", **given)
    assert exchange.sent[-1].headers.get("X-Simulation-Run") == run


async def test_a_key_of_the_client_is_that_of_the_request(client, exchange, service):
    await client.infer("policy", inputs_of(FIRST), headers={"idempotency-key": "k"})
    assert service.ids == ids_of(["k.0"]).tolist()
    await client.infer("policy", inputs_of(FIRST))
    assert service.ids[-1]
    await client.infer("policy", inputs_of(*[FIRST] * 65))
    assert "Idempotency-Key" not in exchange.sent[-1].headers


async def test_credentials_and_trace_pass_on_and_no_other_metadata(client, exchange):
    headers = {"authorization": "Bearer t", "traceparent": "00-1", "x-other": "x"}
    await client.infer("policy", inputs_of(FIRST), headers=headers)
    passed = exchange.sent[-1].headers
    assert passed["authorization"] == "Bearer t"
    assert passed["traceparent"] == "00-1"
    assert "x-other" not in passed


async def test_no_name_of_a_model_leads_to_another_path(client):
    with pytest.raises(InferenceServerException, match="only model is 'policy'") as refused:
        await client.infer("other/../policy", inputs_of(FIRST))
    assert refused.value.status() == "StatusCode.NOT_FOUND"


async def test_raw_contents_of_another_number_than_inputs_are_refused(client):
    request = messages.ModelInferRequest(
        model_name="policy",
        inputs=[messages.ModelInferRequest.InferInputTensor(name="observation")],
        raw_input_contents=[b"", b""],
    )
    with pytest.raises(Exception, match="has 2 tensors, for 1 inputs"):
        await client._client_stub.ModelInfer(request)


@pytest.mark.parametrize(
    ("sent", "detail"),
    [(True, "may have been carried out or not"), (False, "not sent")],
)
async def test_a_service_that_does_not_answer_is_unavailable_and_not_live(
    client, exchange, sent, detail
):
    exchange.lost = NoReply(sent, "No answer")
    with pytest.raises(InferenceServerException, match=detail) as refused:
        await client.infer("policy", inputs_of(FIRST))
    assert refused.value.status() == "StatusCode.UNAVAILABLE"
    assert not await client.is_server_live()


async def test_the_deadline_of_a_call_bounds_its_request(client, exchange):
    await client.infer("policy", inputs_of(FIRST), client_timeout=1.5)
    assert 0 < exchange.sent[-1].timeout_s <= 1.52  # gRPC rounds up to 10 ms on its way
    await client.infer("policy", inputs_of(FIRST))
    assert exchange.sent[-1].timeout_s == 10.0


async def test_a_port_that_is_taken_is_named(exchange):
    transcoder = Transcoder("http://inference", exchange)
    async with serving(transcoder) as port:
        with pytest.raises(CommandError, match=f"Cannot listen on 127.0.0.1:{port}"):
            await serve(transcoder, "127.0.0.1", port, lambda bound: None)
