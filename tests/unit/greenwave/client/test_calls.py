"""What calls carry, what becomes of their answers, and which arguments they refuse."""

import json
from typing import Any

import pytest

from greenwave.client import InvalidInputError, InvalidRequestError, Observed, UnavailableError
from greenwave.client.call import Call
from greenwave.client.forecasts import Density, Flow
from greenwave.client.gateway import Gateway, Run
from greenwave.client.inference import InferenceRun
from greenwave.client.records import Loans
from greenwave.client.results import FailedPrediction, Prediction
from tests.unit.greenwave.client.made import CARD, JUNCTION, LOAN, MOBILE, OBSERVATION, calls_of
from tests.unit.greenwave.client.play import answer


def test_each_change_of_a_run_has_a_key_of_its_own():
    run, direct = calls_of(Run), calls_of(InferenceRun)
    changes: list[Call[Any]] = []
    for _ in range(2):
        changes += [run.reset(), direct.reset(), direct.end()]
        changes += [direct.fork("other"), direct.restore(b"file")]
        changes += [run.act(JUNCTION, OBSERVATION), direct.predict(JUNCTION, OBSERVATION)]
    assert len({call.headers["idempotency-key"] for call in changes}) == 14
    for again in (run.act, direct.predict):
        call = again(JUNCTION, OBSERVATION, key="step-7")
        assert call.key == call.headers["idempotency-key"] == "step-7"


def test_results_of_several_predictions_have_their_keys_and_failures_their_reasons():
    call = calls_of(InferenceRun).predict_many([("a", [1]), Observed("b", [1], "key-b")])
    keys = [item["request_id"] for item in json.loads(call.body or b"")["items"]]
    failure = {"status": 503, "detail": "not known", "code": "outcome_unknown"}
    items = [
        {"junction_id": "a", "action": 1, "confidence": 0.5},
        {"junction_id": "b", "error": failure},
    ]
    good, bad = call.read(answer(body={"items": items}))
    assert isinstance(good, Prediction)
    assert isinstance(bad, FailedPrediction)
    assert [good.key, bad.key] == keys
    assert (keys[1], bad.code, bad.message) == ("key-b", "outcome_unknown", "not known")
    with pytest.raises(ValueError, match="argument"):
        call.read(answer(body={"items": items[:1]}))


def test_an_answer_for_another_junction_is_no_result():
    one = {"junction_id": "b", "action": 1, "confidence": 1}
    decision = {"predictedAction": 1, "signalState": "RED", "timestamp": 1, "status": "success"}
    run = calls_of(InferenceRun)
    for call, body in (
        (run.predict("a", [1]), one),
        (run.predict_many([("a", [1])]), {"items": [one]}),
        (calls_of(Run).act("a", [1]), {**decision, "junctionId": "b"}),
    ):
        with pytest.raises(ValueError, match="another junction"):
            call.read(answer(body=body))


def test_trouble_that_was_asked_for_is_an_answer_and_overload_is_none():
    health = calls_of(Gateway).health()
    degraded = {"status": "degraded", "inferenceService": "down", "timestamp": 1}
    assert health.read(answer(503, degraded)).inference_service == "down"
    missing = {"status": "not ready", "checks": {"store": "It does not answer"}}
    assert calls_of(Loans).readyz().read(answer(503, missing)).checks == missing["checks"]
    with pytest.raises(UnavailableError, match="Too many requests"):
        health.read(answer(503, {"status": "error", "message": "Too many requests"}))


@pytest.mark.parametrize("status", [200, 400])
def test_fields_that_break_rules_are_named_with_either_status(status):
    with pytest.raises(InvalidRequestError, match="totalLoan: Total") as raised:
        calls_of(Loans).update(LOAN).read(answer(status, {"totalLoan": "Total is zero"}))
    assert raised.value.fields == {"totalLoan": "Total is zero"}


@pytest.mark.parametrize(
    "body",
    [
        {"errorMessage": "Already registered", "errorCode": "BAD_REQUEST", "apiPath": "uri=/"},
        {"title": "Bad Request", "detail": "Already registered"},
    ],
)
def test_another_refusal_of_a_write_names_no_fields(body):
    with pytest.raises(InvalidRequestError, match="Already registered") as raised:
        calls_of(Loans).create(MOBILE).read(answer(400, body))
    assert raised.value.fields == {}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: calls_of(Run).act("", [1]), "junction must be a text"),
        (lambda: calls_of(Run).act("a", "12"), "sequence of numbers"),
        (lambda: calls_of(Run).act("a", 7), "sequence of numbers"),
        (lambda: calls_of(Run).act("a", [1, float("nan")]), r"observation\[1\] must be a finite"),
        (lambda: calls_of(Run).act("a", ["1"]), r"observation\[0\] must be a finite"),
        (lambda: calls_of(Run).act("a", [1, 10**400]), r"observation\[1\] is too large"),
        (lambda: calls_of(Run).act("a", [1], key="no spaces"), "idempotency key is 1 to 64"),
        (lambda: calls_of(Run).act("a", [1], metadata=object()), "cannot be sent as JSON"),
        (lambda: calls_of(InferenceRun).predict_many({"a": [1]}), "A pair of junction and obs"),
        (lambda: calls_of(InferenceRun).predict_many(7), "Pairs of junction and obs"),
        (lambda: calls_of(InferenceRun).predict_many(["ab"]), "A pair of junction and obs"),
        (lambda: calls_of(InferenceRun, "a/b"), "A run's name is 1 to 64"),
        (lambda: calls_of(Density).predict([[1, None]]), r"hours\[0\]\[1\] must be"),
        (lambda: calls_of(Density).predict(None), "hours must come as a sequence"),
        (lambda: calls_of(Flow).forecast("a", 7), "samples must come as a sequence"),
        (lambda: calls_of(Flow).forecast("a", [(1, 2)]), "A sample has timestamp, vehicle_count"),
        (lambda: calls_of(Loans).fetch("12"), "10 digits"),
        (lambda: calls_of(Loans).update(CARD), "Loan expected"),
    ],
)
def test_bad_input_is_refused_in_a_sentence_and_nothing_is_sent(wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        wrong()


def test_arrays_of_numpy_are_observations():
    numpy = pytest.importorskip("numpy")
    body = calls_of(Run).act("a", numpy.array([1, 0.5], numpy.float32)).body
    assert json.loads(body or b"")["observations"] == [1, 0.5]


def test_a_result_ignores_what_a_later_server_adds_and_cannot_be_changed():
    body = {"junction_id": "a", "action": 1, "confidence": 1.0, "added": "later"}
    result = calls_of(InferenceRun).predict("a", [1]).read(answer(body=body))
    with pytest.raises(ValueError, match="frozen"):
        result.action = 2
