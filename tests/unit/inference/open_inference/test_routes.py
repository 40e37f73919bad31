"""The Open Inference Protocol on the inference service: forms, sequences and errors."""

import json
import struct
from typing import Any

import httpx
import numpy as np
import pytest

from deployments.http.probes import Probes
from deployments.inference.api import create_app
from deployments.inference.open_inference.steps import MAX_ROWS
from deployments.stateful.errors import UnavailableError
from models.networks.shipped import JUNCTIONS
from tests.unit.inference.policies import BIG, SMALL
from tests.unit.inference.serving import FakeService, client_of

INFER = "/v2/models/policy/infer"
NAMES = [name.encode() for name in JUNCTIONS]


def tensor(name: str, datatype: str, data: list[Any], shape: list[int] | None = None) -> Any:
    return {"name": name, "datatype": datatype, "shape": shape or [len(data)], "data": data}


def body_of(*junctions: str, obs: Any = (0.5, 0.25), **more: Any) -> dict[str, Any]:
    n_rows = len(junctions)
    return {
        "inputs": [
            tensor("observation", "FP32", [list(obs)] * n_rows, [n_rows, len(obs)]),
            tensor("junction", "BYTES", list(junctions)),
        ],
        **more,
    }


def with_input(body: dict[str, Any], *inputs: Any) -> dict[str, Any]:
    return {**body, "inputs": [*body["inputs"], *inputs]}


def of_sequence(*junctions: str, obs: Any = (0.5, 0.25), **parameters: bool) -> dict[str, Any]:
    """Return steps of one sequence."""
    return body_of(*junctions, obs=obs, parameters={"sequence_id": 7, **parameters})


def packed(values: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(each)) + each for each in values)


def outputs_of(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    return {each["name"]: each["data"] for each in response.json()["outputs"]}


async def infer(client: httpx.AsyncClient, body: dict[str, Any], **headers: str) -> Any:
    return outputs_of(await client.post(INFER, json=body, headers=headers))


async def refusal_of(client: httpx.AsyncClient, body: Any, **options: Any) -> tuple[int, str]:
    response = await client.post(INFER, json=body, **options)
    assert response.json().keys() == {"error"}, response.text
    return response.status_code, response.json()["error"]


async def test_without_a_policy_it_lives_and_is_not_ready(empty_service):
    probes = Probes(checks=empty_service.checks())
    async with client_of(create_app(empty_service, probes)) as client:
        assert (await client.get("/v2/health/live")).status_code == 200
        for path in ("/v2/health/ready", "/v2/models/policy/ready"):
            assert (await client.get(path)).status_code == 503
        outputs = await infer(client, body_of(SMALL))
        assert (outputs["status"], outputs["code"]) == ([503], ["model_not_loaded"])


async def test_rows_of_one_state_are_stepped_in_their_order_and_runs_are_apart(client):
    runs = tensor("run", "BYTES", ["a", "b", "a", "a"])
    outputs = await infer(client, with_input(body_of(SMALL, SMALL, SMALL, BIG), runs))
    assert outputs["step"] == [1, 1, 2, 1]
    numbers = tensor("run", "UINT64", [7, 2**64 - 1])
    outputs = await infer(client, with_input(body_of(SMALL, SMALL), numbers))
    assert outputs["step"] == [1, 1]
    outputs = await infer(client, body_of(SMALL), **{"X-Simulation-Run": "7"})
    assert outputs["step"] == [2]


async def test_agent_indices_name_junctions(client):
    body = body_of(SMALL)
    body["inputs"][1] = tensor("agent_index", "INT32", [JUNCTIONS[SMALL].agent_index])
    assert (await infer(client, body))["step"] == [1]
    assert (await infer(client, body_of(SMALL)))["step"] == [2]


async def test_a_repeated_request_makes_no_step(client):
    ids = tensor("request_id", "BYTES", ["k1", "k2"])
    body = with_input(body_of(SMALL, SMALL), ids)
    first = await infer(client, body)
    assert await infer(client, body) == first
    assert first["step"] == [1, 2]
    padded = body_of(SMALL, SMALL, obs=(0.5, 0.25, 0, 0))
    assert await infer(client, with_input(padded, ids)) == first
    keyed = [await infer(client, body_of(SMALL, BIG), **{"Idempotency-Key": "k"}) for _ in "ab"]
    assert keyed[0] == keyed[1]
    for obs in ([0.1], []):
        other = await infer(client, with_input(body_of(SMALL, SMALL, obs=obs), ids))
        assert (other["status"], other["code"]) == ([422, 422], ["key_reused"] * 2)
    assert (await infer(client, body_of(SMALL)))["step"] == [4]


def logits_body(*keys: str, junctions: Any = (SMALL,)) -> dict[str, Any]:
    asked = [{"name": name} for name in ("logits", "action", "confidence", "step")]
    body = body_of(*junctions, obs=(0.5, 0.25, 0.75), outputs=asked)
    return with_input(body, tensor("request_id", "BYTES", [*keys]))


KEY = {"Idempotency-Key": "key"}


async def test_a_repeated_end_of_a_sequence_gets_the_first_answer_and_makes_no_step(client):
    for start in (True, False):
        await infer(client, of_sequence(SMALL, sequence_start=start))
    last = of_sequence(SMALL, SMALL, sequence_end=True)
    first = await infer(client, last, **KEY)
    assert (first["status"], first["step"]) == ([200, 200], [3, 4])
    assert await infer(client, last, **KEY) == first
    assert (await infer(client, of_sequence(SMALL)))["status"] == [400]
    other = of_sequence(SMALL, SMALL, obs=[0.1], sequence_end=True)
    begun = await infer(client, of_sequence(SMALL, sequence_start=True))
    assert begun["step"] == [1]
    assert (await infer(client, other, **KEY))["code"] == ["key_reused"] * 2
    assert await infer(client, last, **KEY) == first
    assert (await infer(client, of_sequence(SMALL)))["step"] == [2]
    alone = of_sequence(SMALL, sequence_start=True, sequence_end=True)
    for _ in range(2):
        assert (await infer(client, alone, **{"Idempotency-Key": "alone"}))["step"] == [1]
    assert (await infer(client, of_sequence(SMALL)))["status"] == [400]


async def test_a_repeated_end_of_several_runs_ends_those_that_have_not_ended(
    client, service, monkeypatch
):
    reset = service.engine.reset

    async def but_b(run: str, *arguments: Any, **named: Any) -> Any:
        if run == "b":
            raise UnavailableError("away")
        return await reset(run, *arguments, **named)

    for run in ("a", "b"):
        await infer(client, body_of(SMALL), **{"X-Simulation-Run": run})
    last = body_of(*[SMALL] * 3, parameters={"sequence_end": True})
    last = with_input(last, tensor("run", "BYTES", ["a", "b", "a"]))
    monkeypatch.setattr(service.engine, "reset", but_b)
    assert (await client.post(INFER, json=last, headers=KEY)).status_code == 503
    monkeypatch.undo()
    for _ in range(2):
        assert (await infer(client, last, **KEY))["step"] == [2, 2, 3]
    assert (await client.get("/runs")).json() == {"runs": []}


@pytest.mark.parametrize("named", [{"sequence_id": "a"}, {}], ids=str)
async def test_of_two_attempts_at_an_end_both_get_the_answer_of_the_first(
    client, service, monkeypatch, named
):
    predict_many, answers = service.predict_many, []

    async def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        answers.append(await infer(client, last, **KEY))
        return await predict_many(*arguments)

    await infer(client, body_of(SMALL), **{"X-Simulation-Run": "a"})
    last = body_of(SMALL, parameters={"sequence_end": True, **named})
    last = last if named else with_input(last, tensor("run", "BYTES", ["a"]))
    monkeypatch.setattr(service, "predict_many", overtaken)
    answers.append(await infer(client, last, **KEY))
    assert answers == [answers[0]] * 2
    assert answers[0]["step"] == [2]
    assert (await client.get("/runs")).json() == {"runs": []}


async def test_a_repeated_start_of_a_sequence_clears_no_later_step(client):
    first = of_sequence(SMALL, sequence_start=True)
    answer = await infer(client, first, **KEY)
    assert (await infer(client, of_sequence(SMALL)))["step"] == [2]
    assert await infer(client, first, **KEY) == answer
    assert (await infer(client, of_sequence(SMALL)))["step"] == [3]


async def test_a_run_of_which_a_row_has_failed_is_not_ended(client):
    huge = float(np.finfo(np.float32).max)
    body = of_sequence(SMALL, SMALL, sequence_end=True)
    await infer(client, of_sequence(SMALL, sequence_start=True))
    body["inputs"][0] = tensor("observation", "FP32", [[0.5] * 8, [huge] * 8], [2, 8])
    assert (await infer(client, body, **KEY))["status"] == [200, 422]
    assert (await infer(client, of_sequence(SMALL)))["step"] == [3]


async def test_a_row_that_fails_spoils_no_other_if_its_status_is_asked_for(client, service):
    huge = float(np.finfo(np.float32).max)
    body = body_of(SMALL, SMALL)
    body["inputs"][0] = tensor("observation", "FP32", [[huge] * 8, [0.5] * 8], [2, 8])
    runs = tensor("run", "BYTES", ["large", "fine"])
    outputs = await infer(client, with_input(body, runs))
    assert (outputs["status"], outputs["step"]) == ([422, 200], [-1, 1])
    alone = with_input({**body, "outputs": [{"name": "action"}]}, runs)
    status, message = await refusal_of(client, alone)
    assert status == 422
    assert message.startswith("Row 0: obs_data is so large")
    assert (await infer(client, {**alone, "outputs": [{"name": "status"}]})).keys() == {"status"}


async def test_logits_are_those_of_the_step(client):
    """Rows of one state take two ways: the first is stepped with the others, then come requests."""
    outputs = await infer(client, logits_body("a", "b", "c", junctions=(SMALL, BIG, SMALL)))
    logits = np.reshape(outputs["logits"], (3, -1))
    assert logits.argmax(axis=1).tolist() == outputs["action"]
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert outputs["confidence"] == pytest.approx(1 / weights.sum(axis=1), rel=1e-6)
    n_phases = JUNCTIONS[SMALL].n_phases
    assert (logits[0, n_phases:] == np.finfo(np.float32).min).all()
    assert outputs["step"] == [1, 1, 2]
    repeated = await infer(client, logits_body("a", "d", junctions=(SMALL, SMALL)))
    assert (outputs["action"][0], outputs["step"][0]) == (repeated["action"][0], 1)
    assert [each is None for each in repeated["logits"]] == [True] * 4 + [False] * 4
    binary = logits_body("a") | {"parameters": {"binary_data_output": True}}
    response = await client.post(INFER, json=binary)
    end = int(response.headers["inference-header-content-length"])
    assert np.isnan(np.frombuffer(response.content, "<f4", 4, end)).all()


async def test_the_outputs_are_those_that_are_asked_for(client):
    wanted = [{"name": "step"}, {"name": "action", "parameters": {"binary_data": True}}]
    response = await client.post(INFER, json=body_of(SMALL, outputs=wanted, id="mine"))
    end = int(response.headers["inference-header-content-length"])
    answer = json.loads(response.content[:end])
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("mine", "policy", "1")
    assert answer["outputs"][0] == tensor("step", "INT64", [1])
    assert answer["outputs"][1]["parameters"] == {"binary_data_size": 4}
    assert len(response.content) == end + 4


OBSERVATION = tensor("observation", "FP32", [[0.5]], [1, 1])
JUNCTION = tensor("junction", "BYTES", [SMALL])
BAD = {
    "no JSON": b"{",
    "no inputs": {"inputs": []},
    "no observation": {"inputs": [JUNCTION]},
    "no junction": {"inputs": [OBSERVATION]},
    "junction and index": with_input(body_of(SMALL), tensor("agent_index", "INT32", [0])),
    "an unknown input": with_input(body_of(SMALL), tensor("speed", "FP32", [0.5])),
    "an input twice": with_input(body_of(SMALL), JUNCTION),
    "an unknown output": body_of(SMALL, outputs=[{"name": "speed"}]),
    "another datatype": {"inputs": [tensor("observation", "FP64", [[0.5]], [1, 1]), JUNCTION]},
    "indices as floats": {"inputs": [OBSERVATION, tensor("agent_index", "INT32", [0.5])]},
    "an index too large": {"inputs": [OBSERVATION, tensor("agent_index", "INT32", [5])]},
    "an index below zero": {"inputs": [OBSERVATION, tensor("agent_index", "INT32", [-1])]},
    "more than 32 bits": {"inputs": [OBSERVATION, tensor("agent_index", "INT32", [2**32])]},
    "texts for numbers": {"inputs": [tensor("observation", "FP32", ["0.5"], [1, 1]), JUNCTION]},
    "numbers for texts": {"inputs": [OBSERVATION, tensor("junction", "BYTES", [7])]},
    "truth values": {"inputs": [tensor("observation", "FP32", [True], [1, 1]), JUNCTION]},
    "rows of two lengths": {
        "inputs": [tensor("observation", "FP32", [[0.5], [0.5, 1]], [2, 2]), JUNCTION]
    },
    "one axis": {"inputs": [tensor("observation", "FP32", [0.5]), JUNCTION]},
    "too few values": {"inputs": [tensor("observation", "FP32", [0.5], [1, 2]), JUNCTION]},
    "too many values": body_of(SMALL, obs=[0.5] * 20),
    "more junctions than rows": {"inputs": [OBSERVATION, tensor("junction", "BYTES", [SMALL] * 2)]},
    "no rows": {"inputs": [tensor("observation", "FP32", [], [0, 8]), JUNCTION]},
    "too large a number": body_of(SMALL, obs=[1e39]),
    "a run of a wrong form": with_input(body_of(SMALL), tensor("run", "BYTES", ["a b"])),
    "a key of a wrong form": with_input(body_of(SMALL), tensor("request_id", "BYTES", [""])),
    "a run and a sequence": with_input(
        body_of(SMALL, parameters={"sequence_id": 1}), tensor("run", "BYTES", ["a"])
    ),
    "a start of nothing": body_of(SMALL, parameters={"sequence_start": True}),
    "a flag that is none": body_of(SMALL, parameters={"sequence_id": 1, "sequence_end": 1}),
    "a sequence that is a list": body_of(SMALL, parameters={"sequence_id": [1]}),
    "a sequence of a wrong form": body_of(SMALL, parameters={"sequence_id": "a b"}),
    "65 keys of one junction": with_input(
        body_of(*[SMALL] * 65), tensor("request_id", "BYTES", [str(n) for n in range(65)])
    ),
    "too many rows": body_of(*[SMALL] * (MAX_ROWS + 1), obs=[0.5]),
}


@pytest.mark.parametrize("body", BAD.values(), ids=list(BAD))
async def test_a_bad_request_is_refused_in_a_sentence_and_steps_nothing(body):
    fake = FakeService()
    async with client_of(create_app(fake)) as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await client.post(INFER, content=content)
    assert response.status_code in (400, 422), response.text
    assert len(response.json()["error"]) > 10
    assert not fake.steps


JSON_OF_BINARY = {
    "inputs": [
        {"name": "observation", "datatype": "FP32", "shape": [1, 1]},
        {"name": "junction", "datatype": "BYTES", "shape": [1]},
    ]
}
VALUE, NAME = struct.pack("<f", 0.5), packed([SMALL.encode()])
CUT = {
    "values cut short": ((4, len(NAME)), VALUE[:2]),
    "a name cut short": ((4, len(NAME) - 1), VALUE + NAME[:-1]),
    "sizes beyond the body": ((4, 2**40), VALUE + NAME),
    "a size below zero": ((4, -1), VALUE + NAME),
    "bytes that belong to no tensor": ((4, len(NAME)), VALUE + NAME + b"x"),
    "not a multiple": ((3, len(NAME)), VALUE[:3] + NAME),
    "a length beyond the tensor": ((4, 8), VALUE + b"\xff\xff\xff\xff1234"),
    "not finite": ((4, len(NAME)), struct.pack("<f", np.nan) + NAME),
}


@pytest.mark.parametrize(("sizes", "blobs"), CUT.values(), ids=list(CUT))
async def test_bad_binary_tensors_are_refused_in_a_sentence(sizes, blobs):
    fake = FakeService()
    inputs = [
        {**each, "parameters": {"binary_data_size": size}}
        for each, size in zip(JSON_OF_BINARY["inputs"], sizes, strict=True)
    ]
    header = json.dumps({"inputs": inputs}).encode()
    async with client_of(create_app(fake)) as client:
        for length in (str(len(header)), "-1", str(10**9), "9" * 5000, "x"):
            response = await client.post(
                INFER,
                content=header + blobs,
                headers={"Inference-Header-Content-Length": length},
            )
            assert response.status_code == 400, response.text
            assert len(response.json()["error"]) > 10
    assert not fake.steps


async def test_unknown_names_are_refused_in_the_form_of_the_protocol(client):
    status, message = await refusal_of(client, body_of("nowhere"))
    assert (status, message.split(".")[0]) == (404, "Unknown junction 'nowhere'")
    for path in ("/v2/models/other/infer", "/v2/models/policy/versions/2/infer"):
        response = await client.post(path, json=body_of(SMALL))
        assert response.status_code == 404
        assert response.json() == {"error": "The only model is 'policy', and its version '1'"}
    for method, path in (
        ("GET", "/v2/models/policy/config"),
        ("GET", "/v2/models/policy/versions/1/stats"),
        ("POST", "/v2/repository/index"),
        ("GET", "/v2/models"),
    ):
        response = await client.request(method, path)
        assert response.status_code == 404
        lacking = f"{path} is not offered; GET /openapi.json lists what is"
        assert response.json() == {"error": lacking}
    misnamed = await refusal_of(client, body_of(SMALL), params={"run_id": "monday"})
    assert misnamed[0] == 422
    compressed = await refusal_of(client, body_of(SMALL), headers={"content-encoding": "gzip"})
    assert compressed == (400, "Compressed bodies are not supported")
