"""The Open Inference Protocol, spoken by NVIDIA's client for Triton, through the edge."""

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from greenwave.client import Addresses
from models.networks.shipped import JUNCTIONS

N_ROWS = 500
NAMES = list(JUNCTIONS)


@pytest.fixture
def server(addresses: Addresses) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(urlsplit(addresses.inference).netloc) as client:
        yield client


def rows_of(n_rows: int, seed: int = 0) -> tuple[Any, list[str]]:
    """Return observations (n_rows, 8) and their junctions."""
    observations = np.random.default_rng(seed).random((n_rows, 8), np.float32)
    return observations, [NAMES[row % len(NAMES)] for row in range(n_rows)]


def inputs_of(
    observations: Any, junctions: list[str], runs: list[str] | None = None, binary: bool = True
) -> list[triton.InferInput]:
    columns = {"junction": junctions} | ({"run": runs} if runs else {})
    inputs = [triton.InferInput("observation", list(observations.shape), "FP32")]
    inputs[0].set_data_from_numpy(observations, binary_data=binary)
    for name, values in columns.items():
        inputs.append(triton.InferInput(name, [len(values)], "BYTES"))
        inputs[-1].set_data_from_numpy(np.array(values, np.object_), binary_data=binary)
    return inputs


def test_it_finds_a_server_and_a_model_that_are_ready(server):
    assert server.is_server_live()
    assert server.is_server_ready()
    assert server.is_model_ready("policy")
    assert server.is_model_ready("policy", "1")
    assert "sequence" in server.get_server_metadata()["extensions"]
    names = [each["name"] for each in server.get_model_metadata("policy")["inputs"]]
    assert names == ["observation", "junction", "agent_index", "run", "request_id"]


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "JSON"])
def test_a_batch_of_runs_has_the_answers_of_single_requests(server, inference, run_id, binary):
    observations, junctions = rows_of(N_ROWS)
    runs = [f"{run_id}.{row // 100}" for row in range(N_ROWS)]
    outputs = [
        triton.InferRequestedOutput(name, binary_data=binary)
        for name in ("action", "confidence", "step", "status")
    ]
    result = server.infer(
        "policy", inputs_of(observations, junctions, runs, binary), outputs=outputs
    )
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


def test_a_sequence_starts_continues_and_ends(server):
    def step(**options: bool) -> int:
        result = server.infer("policy", inputs_of(*rows_of(1)), sequence_id=4711, **options)
        return int(result.as_numpy("step")[0])

    assert step(sequence_start=True) == 1
    assert step() == 2
    assert step(sequence_end=True) == 3
    assert step() == -1
    assert step(sequence_start=True) == 1


def test_errors_are_those_of_the_protocol(server):
    observations, junctions = rows_of(3)
    with pytest.raises(InferenceServerException, match=r"\[404\].*only model is 'policy'"):
        server.infer("other", inputs_of(observations, junctions))
    with pytest.raises(InferenceServerException, match=r"\[404\].*Unknown junction 'nowhere'"):
        server.infer("policy", inputs_of(observations, ["nowhere"] * 3))
    with pytest.raises(InferenceServerException, match=r"\[400\].*not finite in row 0"):
        server.infer("policy", inputs_of(observations * np.float32(np.nan), junctions))


async def test_64_simulators_send_at_once_from_one_event_loop(addresses, run_id):
    async with triton_aio.InferenceServerClient(urlsplit(addresses.inference).netloc) as server:

        async def drive(number: int) -> list[int]:
            steps = []
            for n in range(5):
                run, status = f"{run_id}.{number}", [503]
                headers = {"X-Simulation-Run": run, "Idempotency-Key": f"{run}.{n}"}
                while 503 in status:  # many new states may be too many at once
                    result = await server.infer(
                        "policy", inputs_of(*rows_of(5, n)), headers=headers
                    )
                    status = result.as_numpy("status").tolist()
                steps += result.as_numpy("step").tolist()
            return steps

        steps = await asyncio.gather(*map(drive, range(64)))
    assert steps == [[n + 1 for n in range(5) for _ in NAMES]] * 64


def test_a_large_batch_passes_the_edge_with_a_key_and_is_not_stepped_twice(addresses, run_id):
    observations, junctions = rows_of(60)
    body = {
        "inputs": [
            {
                "name": "observation",
                "datatype": "FP32",
                "shape": [60, 8],
                "data": observations.ravel().tolist(),
            },
            {"name": "junction", "datatype": "BYTES", "shape": [60], "data": junctions},
        ]
    }
    headers = {"X-Simulation-Run": run_id, "Idempotency-Key": run_id}
    with httpx.Client(base_url=addresses.inference, timeout=10) as client:
        answers = [
            client.post("/v2/models/policy/infer", json=body, headers=headers).json()
            for _ in range(2)
        ]
    assert answers[0] == answers[1]
    assert max(answers[0]["outputs"][2]["data"]) == 12
