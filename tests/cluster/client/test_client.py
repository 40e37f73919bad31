"""The client on a real system: every route, and exactly one step for each call."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pytest

from greenwave.client import (
    AsyncClient,
    Client,
    FailedPrediction,
    InvalidInputError,
    InvalidRequestError,
    NotFoundError,
    Observed,
    Prediction,
    Retries,
    Sample,
    UnauthorizedError,
    UnknownOutcomeError,
    VectorPolicy,
)
from load_tests.harness.system import System
from models.networks.shipped import JUNCTIONS
from tests.cluster.client.lossy_proxy import losing
from tests.cluster.test_documentation import OPERATOR

Result = TypeVar("Result")

JUNCTION, OBSERVATION = "300839359", [1, 0, 1, 0.4]
USER = OPERATOR["JWT_AUTH_USERNAME"], OPERATOR["JWT_AUTH_PASSWORD"]


class Awaited:
    """Makes the asynchronous client look like the other one, so that a test covers both."""

    def __init__(self, inner: Any, runner: asyncio.Runner) -> None:
        self._inner = inner
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._inner, name)
        return self._wrapped(member) if callable(member) else Awaited(member, self._runner)

    def _wrapped(self, member: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = member(*arguments, **named)
            if inspect.isawaitable(result):
                return self._runner.run(_coroutine(result))
            return Awaited(result, self._runner)

        return call


async def _coroutine(awaitable: Awaitable[Result]) -> Result:
    return await awaitable


@pytest.fixture(params=[Client, AsyncClient])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Make a client of either kind, whose calls return their results."""
    opened: list[Any] = []
    with asyncio.Runner() as runner:

        def connect(*arguments: Any, **named: Any) -> Any:
            client = request.param(*arguments, **named)
            opened.append(client if request.param is Client else Awaited(client, runner))
            return opened[-1]

        yield connect
        for client in opened:
            client.close()


@pytest.fixture
def client(connect: Callable[..., Any], whole: System) -> Any:
    return connect(whole.url, *USER)


def test_decisions_and_predictions_of_a_run_share_its_memory(client: Any, run_id: str) -> None:
    run, direct = client.run(run_id), client.inference.run(run_id)
    run.reset()
    decision = run.act(JUNCTION, OBSERVATION, metadata="peak")
    assert (decision.junction_id, decision.is_fallback) == (JUNCTION, False)
    assert direct.predict(JUNCTION, OBSERVATION).step == 2
    assert run.act(JUNCTION, OBSERVATION, key=decision.key).action == decision.action
    assert direct.predict(JUNCTION, OBSERVATION).step == 3
    assert not run.demo().is_fallback
    direct.reset()
    assert direct.predict(JUNCTION, OBSERVATION).step == 1


def test_several_predictions_come_in_their_order_and_one_failure_is_its_own(
    client: Any, run_id: str
) -> None:
    run = client.inference.run(run_id)
    asked = [(JUNCTION, OBSERVATION), Observed("nowhere", [1]), (JUNCTION, OBSERVATION)]
    first, failed, last = run.predict_many(asked)
    assert isinstance(first, Prediction)
    assert isinstance(failed, FailedPrediction)
    assert (failed.junction_id, failed.status) == ("nowhere", 404)
    again = run.predict_many([Observed(JUNCTION, OBSERVATION, last.key)])
    assert again[0].confidence == last.confidence
    assert run.predict(JUNCTION, OBSERVATION).step == 3


def rows_of(n: int, seed: int = 0) -> tuple[Any, list[str]]:
    """Return observations (n, 8) and their junctions."""
    names = list(JUNCTIONS)
    observations = np.random.default_rng(seed).random((n, 8), np.float32)
    return observations, [names[row % len(names)] for row in range(n)]


def test_a_call_of_many_runs_has_the_results_of_single_calls(client: Any, run_id: str) -> None:
    n = 120
    observations, junctions = rows_of(n)
    runs = [f"{run_id}.{row // 5 % 12}" for row in range(n)]
    done = client.inference.infer(observations, junctions, runs=runs)
    assert done.failed == []
    assert set(done.step) == {1, 2}
    indices = [JUNCTIONS[name].agent_index for name in junctions]
    again = client.inference.infer(
        observations.tolist(), indices, runs=runs, request_ids=done.request_ids
    )
    assert again == done
    for row in range(0, n, 60):
        single = client.inference.run(f"{run_id}.single").predict(junctions[row], observations[row])
        assert (single.action, single.step) == (done.action[row], done.step[row])
        assert single.confidence == pytest.approx(done.confidence[row], abs=1e-5)
    begun = client.inference.infer(observations, junctions, runs=runs, sequence_start=True)
    assert begun.step == done.step
    with pytest.raises(NotFoundError, match="Unknown junction 'nowhere'"):
        client.inference.infer([[0.5]], ["nowhere"])


def test_simulators_send_to_a_batch_and_receive_each_decision_once(
    whole: System, run_id: str
) -> None:
    simulators, rounds = 64, 5
    observations, junctions = rows_of(5)
    steps: dict[str, list[int]] = {f"{run_id}.{n}": [] for n in range(simulators)}
    with Client(whole.url) as client, client.inference.batch() as batch:
        for run in steps:
            batch.send(run, junctions, observations)
        for _ in range(simulators * rounds):
            received = batch.recv(timeout_s=30)
            assert received.predictions.failed == []
            steps[received.run].append(received.predictions.step[0])
            if len(steps[received.run]) < rounds:
                batch.send(received.run, junctions, observations)
    assert set(map(tuple, steps.values())) == {tuple(range(1, rounds + 1))}


def test_the_actions_of_a_vector_of_environments_are_those_of_their_runs(
    whole: System, run_id: str
) -> None:
    n = 32
    with Client(whole.url) as client:
        policy = VectorPolicy(client, n, run_id)
        for step in range(6):
            observations, _ = rows_of(n, seed=step)
            actions = policy.act(dict.fromkeys(JUNCTIONS, observations))
            if step == 3:
                policy.reset([2])  # at the next step
            for number in (0, 2):
                run = client.inference.run(f"{run_id}.single.{number}")
                if number == 2 and step == 4:
                    run.reset()
                single = run.predict(JUNCTION, observations[number])
                assert single.action == actions[JUNCTION][number]
        for number, expected in ((0, 7), (2, 3)):
            run = client.inference.run(f"{run_id}-{number}")
            assert run.predict(JUNCTION, OBSERVATION).step == expected


def test_health_and_models_are_told(client: Any) -> None:
    assert client.gateway.health().inference_service == "up"
    assert client.inference.health().status == "healthy"
    assert client.inference.model_info().junctions[JUNCTION].valid_actions == 2
    assert client.density.health().status == client.flow.health().status == "healthy"
    for service in ("gateway", "inference", "density", "flow", "accounts", "loans", "cards"):
        assert getattr(client, service).livez().status == "alive"
        assert getattr(client, service).readyz().status == "ready"
    assert client.density.model_info().input_shape == [3, 5]
    assert JUNCTION in client.flow.model_info().trained_on_junctions


def test_forecasts_are_made(client: Any) -> None:
    forecast = client.density.predict([[16.9, 11.2, 12.6, 8.8, 9.1]] * 3)
    assert len(forecast.by_edge) == 5
    sample = Sample(int(time.time()) - 60, 12, 31.5, 0.04)
    flow = client.flow.forecast(JUNCTION, [sample])
    assert flow.forecast_timestamp == sample.timestamp + 900


@pytest.mark.parametrize("kind", ["loans", "cards", "accounts"])
def test_records_are_created_fetched_changed_and_deleted(client: Any, kind: str) -> None:
    records, mobile = getattr(client, kind), f"{random.randrange(10**10):010}"
    who = ["Ann Miller", "ann@example.org"] if kind == "accounts" else []
    assert records.say_hello() == "Hello World"
    records.create(*who, mobile)
    with pytest.raises(InvalidRequestError, match="already registered"):
        records.create(*who, mobile)
    record = records.fetch(mobile)
    moved = record.model_copy(update={"mobile_number": mobile[::-1]})
    records.update(moved)
    assert records.fetch(mobile[::-1]) == moved
    records.delete(mobile[::-1])
    with pytest.raises(NotFoundError, match="not found"):
        records.fetch(mobile)


def test_fields_that_break_rules_are_named_whatever_the_status(client: Any) -> None:
    mobile = f"{random.randrange(10**10):010}"
    client.loans.create(mobile)
    wrong = client.loans.fetch(mobile).model_copy(update={"total_loan": 0})
    with pytest.raises(InvalidRequestError) as raised:
        client.loans.update(wrong)
    assert set(raised.value.fields) == {"totalLoan"}
    client.loans.delete(mobile)


def test_refusals_tell_the_services_words(
    client: Any, connect: Callable[..., Any], whole: System
) -> None:
    with pytest.raises(NotFoundError, match="Unknown junction 'nowhere'"):
        client.inference.run().predict("nowhere", OBSERVATION)
    with pytest.raises(InvalidInputError, match="at most 833 values, not 834"):
        client.run().act(JUNCTION, [0] * 834)  # before it is sent
    with pytest.raises(UnauthorizedError, match="Invalid username or password"):
        connect(whole.url, "client-nobody", "wrong").run().reset()


def act(client: Any, run: str) -> None:
    client.run(run).act(JUNCTION, OBSERVATION)


def predict(client: Any, run: str) -> None:
    client.inference.run(run).predict(JUNCTION, OBSERVATION)


def predict_many(client: Any, run: str) -> None:
    client.inference.run(run).predict_many([(JUNCTION, OBSERVATION)])


def infer(client: Any, run: str) -> None:
    assert client.inference.infer([OBSERVATION], [JUNCTION], runs=[run]).failed == []


WAYS = [
    (act, "/api/traffic/action"),
    (predict, "/predict_action"),
    (predict_many, "/predict_actions"),
    (infer, "/v2/models/policy/infer"),
]


@pytest.mark.parametrize(("ask", "path"), WAYS, ids=[path for _, path in WAYS])
def test_answers_that_are_lost_cost_no_step_and_make_none(
    ask: Callable[[Any, str], None],
    path: str,
    connect: Callable[..., Any],
    whole: System,
    run_id: str,
) -> None:
    """Lose every third answer on its way, after the step was made."""
    calls = 20
    with losing(whole.url, path, lambda n: n % 3 == 0) as proxy:
        client = connect(proxy.url, *USER)
        for _ in range(calls):
            ask(client, run_id)
    assert proxy.asked > calls * 1.3
    with Client(whole.url) as direct:
        assert direct.inference.run(run_id).predict(JUNCTION, OBSERVATION).step == calls + 1


def test_a_step_of_unknown_outcome_is_had_with_its_key(
    connect: Callable[..., Any], whole: System, run_id: str
) -> None:
    with losing(whole.url, "/predict_action", lambda n: n == 1) as proxy:
        run = connect(proxy.url, retries=Retries(attempts=1)).inference.run(run_id)
        with pytest.raises(UnknownOutcomeError) as raised:
            run.predict(JUNCTION, OBSERVATION)
        assert run.predict(JUNCTION, OBSERVATION, key=raised.value.key).step == 1


def test_a_record_is_not_created_twice_when_the_answer_is_lost(
    connect: Callable[..., Any], whole: System
) -> None:
    mobile = f"{random.randrange(10**10):010}"
    with losing(whole.url, f"/api/loans?mobileNumber={mobile}", lambda n: True) as proxy:
        with pytest.raises(UnknownOutcomeError):
            connect(proxy.url).loans.create(mobile)
        assert proxy.asked == 1
    with Client(whole.url) as direct:
        assert direct.loans.fetch(mobile).mobile_number == mobile
        direct.loans.delete(mobile)
