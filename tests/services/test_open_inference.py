"""The Open Inference Protocol over HTTP and gRPC, spoken by NVIDIA's clients, through the edge."""

import queue
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from greenwave.client import Addresses
from models.networks.shipped import JUNCTIONS

N_ROWS = 500
NAMES = list(JUNCTIONS)
START_S = 60


@pytest.fixture(scope="module")
def grpc_address(addresses: Addresses) -> Iterator[str]:
    """Run `greenwave grpc`, and check that SIGTERM ends it."""
    command = [sys.executable, "-m", "greenwave", "grpc", "--url", addresses.inference]
    process = subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        listening = re.match(r"gRPC at (\S+), from ", line)
        assert listening, line
        yield listening[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture
def http_server(addresses: Addresses) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(urlsplit(addresses.inference).netloc) as client:
        yield client


@pytest.fixture
def grpc_server(grpc_address: str) -> Iterator[triton_grpc.InferenceServerClient]:
    with triton_grpc.InferenceServerClient(grpc_address) as client:
        yield client


@pytest.fixture(params=["http_server", "grpc_server"], ids=["HTTP", "gRPC"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def rows_of(n_rows: int, seed: int = 0) -> tuple[Any, list[str]]:
    """Return observations (n_rows, 8) and their junctions."""
    observations = np.random.default_rng(seed).random((n_rows, 8), np.float32)
    return observations, [NAMES[row % len(NAMES)] for row in range(n_rows)]


def inputs_of(
    server: Any,
    observations: Any,
    junctions: list[str],
    runs: list[str] | None = None,
    **form: bool,
) -> list[Any]:
    kind = triton_grpc if isinstance(server, triton_grpc.InferenceServerClient) else triton
    columns = {"observation": observations, "junction": np.array(junctions, np.object_)}
    if runs is not None:
        columns["run"] = np.array(runs, np.object_)
    inputs = []
    for name, values in columns.items():
        datatype = "FP32" if name == "observation" else "BYTES"
        inputs.append(kind.InferInput(name, list(values.shape), datatype))
        inputs[-1].set_data_from_numpy(values, **form)
    return inputs


def test_it_finds_a_server_and_a_model_that_are_ready(server, http_server):
    assert server.is_server_live()
    assert server.is_server_ready()
    assert server.is_model_ready("policy")
    assert server.is_model_ready("policy", "1")
    assert "sequence" in str(server.get_server_metadata())
    described = server.get_model_metadata("policy")
    inputs = described["inputs"] if server is http_server else described.inputs
    names = [each["name"] if server is http_server else each.name for each in inputs]
    assert names == ["observation", "junction", "agent_index", "run", "request_id"]


def check_batch(server: Any, inference: Any, run_id: str, form: Any, outputs: Any) -> None:
    observations, junctions = rows_of(N_ROWS)
    # 500 new states at once may be too many for a busy machine
    runs = [f"{run_id}.{row // 100}" for row in range(N_ROWS)]
    inputs = inputs_of(server, observations, junctions, runs, **form)
    result = server.infer("policy", inputs, outputs=outputs)
    assert set(result.as_numpy("status")) == {200}
    assert set(result.as_numpy("step")) == set(range(1, 21))
    for row in range(100):
        single = inference.post(
            "/predict_action",
            json={"junction_id": junctions[row], "obs_data": observations[row].tolist()},
            headers={"X-Simulation-Run": f"{run_id}.single"},
        )
        assert single.json()["action"] == result.as_numpy("action")[row]
        confidence = result.as_numpy("confidence")[row]
        assert single.json()["confidence"] == pytest.approx(confidence, abs=1e-5)


def test_a_batch_of_runs_has_the_answers_of_single_requests(server, inference, run_id):
    check_batch(server, inference, run_id, {}, None)


def test_a_batch_in_json_has_them_too(http_server, inference, run_id):
    names = ("action", "confidence", "step", "status")
    outputs = [triton.InferRequestedOutput(name, binary_data=False) for name in names]
    check_batch(http_server, inference, run_id, {"binary_data": False}, outputs)


def test_a_sequence_starts_continues_and_ends(server):
    def step(**options: bool) -> int:
        inputs = inputs_of(server, *rows_of(1))
        result = server.infer("policy", inputs, sequence_id=4711, **options)
        return int(result.as_numpy("step")[0])

    assert step(sequence_start=True) == 1
    assert step() == 2
    assert step(sequence_end=True) == 3
    assert step() == -1
    assert step(sequence_start=True) == 1


def test_errors_are_those_of_the_protocol(server):
    observations, junctions = rows_of(3)
    with pytest.raises(InferenceServerException, match="only model is 'policy'") as unknown:
        server.infer("other", inputs_of(server, observations, junctions))
    assert unknown.value.status() in ("404", "StatusCode.NOT_FOUND")
    with pytest.raises(InferenceServerException, match="Unknown junction 'nowhere'") as unknown:
        server.infer("policy", inputs_of(server, observations, ["nowhere"] * 3))
    assert unknown.value.status() in ("404", "StatusCode.NOT_FOUND")
    with pytest.raises(InferenceServerException, match="not finite in row 0") as invalid:
        server.infer("policy", inputs_of(server, observations * np.float32(np.nan), junctions))
    assert invalid.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


def test_a_stream_steps_its_sequence_in_order_and_survives_a_refusal(grpc_server):
    answers: queue.Queue[Any] = queue.Queue()
    inputs = inputs_of(grpc_server, *rows_of(1))
    grpc_server.start_stream(lambda result, error: answers.put((result, error)))
    for n in range(5):
        options = {"sequence_start": n == 0, "sequence_end": n == 4}
        if n == 3:
            grpc_server.async_stream_infer("nothing", inputs)
        grpc_server.async_stream_infer("policy", inputs, sequence_id="stream", **options)
    given = [answers.get(timeout=START_S) for _ in range(6)]
    _, error = given.pop(3)
    assert "only model is 'policy'" in str(error)
    assert [result and result.as_numpy("step")[0] for result, _ in given] == [1, 2, 3, 4, 5]
    grpc_server.stop_stream()
