"""The Open Inference Protocol over gRPC, spoken by NVIDIA's client, through the edge."""

import queue
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from greenwave.client import Addresses
from models.networks.shipped import JUNCTIONS

NAMES = list(JUNCTIONS)
START_S = 60


@pytest.fixture(scope="module")
def address(addresses: Addresses) -> Iterator[str]:
    """Run `greenwave grpc`, and check that SIGTERM ends it."""
    command = [
        sys.executable,
        "-m",
        "greenwave",
        "grpc",
        "--url",
        addresses.inference,
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
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
def server(address: str) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(address) as client:
        yield client


def inputs_of(n_rows: int, runs: list[str] | None = None) -> list[triton.InferInput]:
    observations = np.random.default_rng(0).random((n_rows, 8), np.float32)
    columns = {
        "observation": observations,
        "junction": np.array([NAMES[row % len(NAMES)] for row in range(n_rows)], np.object_),
    }
    if runs is not None:
        columns["run"] = np.array(runs, np.object_)
    inputs = []
    for name, values in columns.items():
        datatype = "FP32" if name == "observation" else "BYTES"
        inputs.append(triton.InferInput(name, list(values.shape), datatype))
        inputs[-1].set_data_from_numpy(values)
    return inputs


def test_it_finds_a_server_and_a_model_that_are_ready(server):
    assert server.is_server_live()
    assert server.is_server_ready()
    assert server.is_model_ready("policy", "1")
    assert "sequence" in server.get_server_metadata().extensions


def test_a_batch_has_the_answers_of_the_http_protocol(server, inference, run_id):
    # 500 new states at once may be too many for a busy machine
    runs = [f"{run_id}.{row // 100}" for row in range(500)]
    result = server.infer("policy", inputs_of(500, runs))
    assert set(result.as_numpy("status")) == {200}
    assert set(result.as_numpy("step")) == set(range(1, 21))
    observations = np.random.default_rng(0).random((500, 8), np.float32)
    for row in range(5):
        single = inference.post(
            "/predict_action",
            json={"junction_id": NAMES[row], "obs_data": observations[row].tolist()},
            headers={"X-Simulation-Run": f"{run_id}.single"},
        ).json()
        assert single["action"] == result.as_numpy("action")[row]
        assert single["confidence"] == pytest.approx(result.as_numpy("confidence")[row], abs=1e-5)


def test_a_stream_steps_its_sequence_in_order_and_survives_a_refusal(server):
    answers: queue.Queue[tuple[triton.InferResult | None, InferenceServerException | None]]
    answers = queue.Queue()
    server.start_stream(lambda result, error: answers.put((result, error)))
    for n in range(5):
        server.async_stream_infer(
            "policy",
            inputs_of(1),
            sequence_id="stream",
            sequence_start=n == 0,
            sequence_end=n == 4,
        )
    server.async_stream_infer("nothing", inputs_of(1))
    results = [answers.get(timeout=START_S)[0] for _ in range(5)]
    steps = [result and result.as_numpy("step")[0] for result in results]
    assert steps == [1, 2, 3, 4, 5]
    _, error = answers.get(timeout=START_S)
    assert "only model is 'policy'" in str(error)
    server.stop_stream()


def test_a_repeated_key_gets_the_first_answer_again(server, run_id):
    headers = {"x-simulation-run": run_id, "idempotency-key": run_id}
    results = [server.infer("policy", inputs_of(10), headers=headers) for _ in range(2)]
    assert results[0].as_numpy("step").tolist() == results[1].as_numpy("step").tolist()
    assert max(results[1].as_numpy("step")) == 2
