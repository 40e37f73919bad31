"""Steps of many runs in one call, with the service's own reader of requests."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deployments.stateful.row import id_of
from greenwave.client import (
    Client,
    InvalidInputError,
    Retries,
    UnknownOutcomeError,
    UnusableAnswerError,
)
from greenwave.client.call import NoReply, Reply, Send
from greenwave.client.inference import Inference
from models.networks.shipped import JUNCTIONS
from tests.unit.greenwave.client.fake_inference import FakeInference
from tests.unit.greenwave.client.made import calls_of
from tests.unit.greenwave.client.play import REFUSED, Exchanges, text

URL = "http://inference"
SMALL, BIG = "300839359", "joinedS_265580996_300839357"
ROWS: list[list[float]] = [[1, 0, 0.5], [2, 1], [3, 0, 1, 0.25]]


def client_of(service: FakeInference, **options: Any) -> Client:
    return Client(URL, exchange=service, **options)


def test_each_row_has_its_result_and_its_key():
    service = FakeInference()
    with client_of(service) as client:
        done = client.inference.infer(ROWS, [SMALL, BIG, SMALL], runs=["a", "a", "b"])
    assert done.action.tolist() == [1, 2, 3]
    assert done.step.tolist() == [1, 1, 1]
    assert done.confidence.tolist() == [0.5] * 3
    assert (done.status.tolist(), done.code, done.failed) == ([200] * 3, [""] * 3, [])
    assert {(run, key) for run, _, key in service.receipts} == set(
        zip(["a", "a", "b"], map(id_of, done.request_ids), strict=True)
    )
    assert np.shares_memory(np.asarray(done.action), done.action)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, ">f4"])
def test_arrays_are_the_same_rows_as_lists(dtype):
    service = FakeInference()
    array = np.array([[1, 0, 7], [2, 1, 7]]).astype(dtype)
    names, indices = (
        np.array([SMALL, BIG]),
        np.array([JUNCTIONS[n].agent_index for n in (SMALL, BIG)]),
    )
    with client_of(service) as client:
        for rows, junctions in (
            (array.tolist(), [SMALL, BIG]),
            (array, names),
            (list(array), indices),
            (np.asfortranarray(array), indices.tolist()),
            (np.repeat(array, 2, axis=0)[::2], [SMALL, BIG]),
        ):
            first = client.inference.infer(rows, junctions, runs="r", key="k", sequence_start=True)
            assert first.action.tolist() == [1, 2]
    assert service.calls == [[("r", SMALL), ("r", BIG)]] * 5
    bodies = [send.body for send in service.sent if send.body]
    encoded = array.astype("<f4").tobytes()
    assert all(encoded in body for body in bodies)


def test_a_call_of_unknown_outcome_is_had_with_its_key_and_its_rows_with_theirs():
    service = FakeInference(lost={1})
    with client_of(service, retries=Retries(attempts=1)) as client:
        infer = client.inference.infer
        with pytest.raises(UnknownOutcomeError) as raised:
            infer(ROWS, [SMALL] * 3, runs="r")
        done = infer(ROWS, [SMALL] * 3, runs="r", key=raised.value.key)
        assert done.step.tolist() == [1, 2, 3]
        again = infer(ROWS[1:], [SMALL] * 2, runs=["r"] * 2, request_ids=done.request_ids[1:])
        assert again.step.tolist() == [2, 3]
    assert service.steps == {("r", SMALL): 3}


def test_rows_that_fail_for_a_moment_are_repeated_and_the_others_are_not():
    service = FakeInference(failing={"b": [503, 503]})
    with client_of(service, retries=Retries(first_pause_s=0.001)) as client:
        done = client.inference.infer(ROWS, [SMALL] * 3, runs=["a", "b", "c"])
    assert (done.failed, done.step.tolist()) == ([], [1, 1, 1])
    assert len(service.calls) == 3
    assert set(service.steps.values()) == {1}


def test_after_a_partial_result_an_error_does_not_say_that_nothing_was_done():
    service = FakeInference(failing={"b": [503]})

    async def refuse_later(send: Send) -> Reply | NoReply:
        return REFUSED if service.calls else await service(send)

    exchange = Exchanges(refuse_later)
    client = Client(URL, exchange=exchange, retries=Retries(first_pause_s=0.001))
    with pytest.raises(UnknownOutcomeError) as raised:
        client.inference.infer(ROWS[:2], [SMALL] * 2, runs=["a", "b"], key="k")
    assert raised.value.key == "k"


@pytest.mark.parametrize(
    ("failing", "runs"),
    [
        ({"b": [422]}, ["a", "b", "c"]),  # it would be refused again
        ({"a": [503]}, ["a", "a", "c"]),  # the second step of its state was made
    ],
)
def test_rows_that_must_not_be_repeated_are_returned(failing, runs):
    service = FakeInference(failing=failing)
    with client_of(service) as client:
        assert len(client.inference.infer(ROWS, [SMALL] * 3, runs=runs).failed) == 1
    assert len(service.calls) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "1 to 4096 observations, not 0"),
        (([[1]] * 4097, [SMALL] * 4097), "not 4097"),
        (([[1], [1]], [SMALL]), "junctions must be a sequence with one for each"),
        (([[1]], SMALL), "junctions must be a sequence"),
        (([[1]], 7), "junctions must be a sequence"),
        (([[1], [1]], [SMALL, 7]), "A junction must be a text"),
        (([[1], [1]], [7, SMALL]), "names, or agent indices"),
        (([[1]], [[SMALL]]), "names, or agent indices"),
        (([[1], [1]], [SMALL, []]), "junctions must be texts"),
        (([[1]], [2**31]), "names, or agent indices"),
        (([1], [SMALL]), "rows of numbers"),
        ((["1"], [SMALL]), "rows of numbers"),
        ((7, [SMALL]), "rows of numbers"),
        ((np.array([["a"]]), [SMALL]), "rows of numbers"),
        (([np.array(["a"])], [SMALL]), "rows of numbers"),
        (([[10**400]], [SMALL]), "rows of numbers"),
        ((np.array([[10**400]]), [SMALL]), "rows of numbers"),
        (([[1]], ["\ud800"]), "lone surrogate"),
        (([np.zeros((2, 2))], [SMALL]), "one dimension, not 2"),
        ((np.zeros(3), [SMALL] * 3), r"a row for each step, not the shape \(3,\)"),
        ({"runs": ["a"]}, "runs must be a sequence with one for each"),
        ({"runs": ["a", "b c"]}, "A run's name is 1 to 64"),
        ({"runs": "b c"}, "A run's name is 1 to 64"),
        ({"runs": ["a", []]}, "runs must be texts"),
        ({"request_ids": ["a", "a"]}, "must differ"),
        ({"request_ids": ["a", None]}, "idempotency key is 1 to 64"),
        ({"request_ids": "ab"}, "request_ids must be a sequence"),
        ({"key": "no spaces"}, "idempotency key is 1 to 64"),
        ({"sequence_start": True}, "sequence_start needs runs"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments, message):
    named = isinstance(arguments, dict)
    infer = calls_of(Inference).infer
    with pytest.raises(InvalidInputError, match=message):
        infer([[1], [1]], [SMALL] * 2, **arguments) if named else infer(*arguments)


def without(name: str) -> Any:
    def spoil(reply: Reply) -> Reply:
        end = int(reply.headers["inference-header-content-length"])
        header = json.loads(reply.body[:end])
        header["outputs"] = [each for each in header["outputs"] if each["name"] != name]
        changed = json.dumps(header).encode()
        headers = {**reply.headers, "inference-header-content-length": str(len(changed))}
        return Reply(200, headers, changed + reply.body[end:])

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda reply: text(200, "hello"),
        lambda reply: replace(reply, body=reply.body[:-1]),
        lambda reply: replace(reply, body=reply.body + b"x"),
        lambda reply: replace(
            reply, headers={**reply.headers, "inference-header-content-length": "9"}
        ),
        lambda reply: replace(reply, body=reply.body.replace(b"INT64", b"INT32")),
        lambda reply: replace(
            reply, body=reply.body.replace(b"\x0a\0\0\0overloaded", b"\x0b\0\0\0overloaded")
        ),
        *map(without, ("action", "confidence", "step", "status", "code")),
    ],
)
def test_an_answer_of_another_form_is_no_result(spoil):
    service = FakeInference(failing={"b": [503] * 9})

    async def garble(send: Send) -> Any:
        return spoil(await service(send))

    client = Client(URL, exchange=Exchanges(garble))
    with pytest.raises(UnusableAnswerError, match="documented form"):
        client.inference.infer(ROWS[:2], [SMALL] * 2, runs=["a", "b"])
