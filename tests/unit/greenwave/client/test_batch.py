"""What many simulators send is combined into few calls, and no simulator delays another."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from greenwave.client import (
    Batch,
    Client,
    InvalidInputError,
    NotFoundError,
    Received,
    Retries,
    UnavailableError,
    UnknownOutcomeError,
)
from tests.support.waiting import until
from tests.unit.greenwave.client.fake_inference import FakeInference

SMALL, BIG = "300839359", "joinedS_265580996_300839357"
FAR_S = 20.0


@pytest.fixture
def service() -> FakeInference:
    return FakeInference()


@pytest.fixture
def client(service: FakeInference) -> Iterator[Client]:
    with Client("http://inference", exchange=service, retries=Retries(attempts=1)) as client:
        yield client


def send_while_busy(batch: Batch, service: FakeInference, sends: list[tuple[Any, ...]]) -> None:
    """Let a call wait for the service, and send meanwhile."""
    service.open.clear()
    batch.send("first", [SMALL], [[1]])
    until(service.asked.is_set)
    for send in sends:
        batch.send(*send)
    service.open.set()


def received(batch: Batch, n: int) -> dict[str, Received]:
    results = [batch.recv(FAR_S) for _ in range(n)]
    assert len({each.run for each in results}) == n
    return {each.run: each for each in results}


def test_what_arrives_during_a_call_is_sent_together(client, service):
    with client.inference.batch() as batch:
        sends = [(f"run-{n}", [SMALL, BIG], [[n], [n, 0, 1]]) for n in range(50)]
        send_while_busy(batch, service, sends)
        results = received(batch, 51)
    assert [len(call) for call in service.calls] == [1, 100]
    for n in range(50):
        assert results[f"run-{n}"].predictions.action.tolist() == [n, n]


def test_results_come_while_other_simulators_have_not_sent(client):
    with client.inference.batch() as batch:
        for n in range(3):
            batch.send("fast", [SMALL], [[n]])
            assert batch.recv(FAR_S).predictions.step[0] == n + 1
        with pytest.raises(UnavailableError, match=r"within 0\.01 s"):
            batch.recv(0.01)


def test_a_run_is_in_a_call_once_and_its_steps_keep_their_order(client, service):
    with client.inference.batch() as batch:
        send_while_busy(batch, service, [("a", [SMALL], [[n]]) for n in range(3)])
        steps = [batch.recv(FAR_S).predictions for _ in range(4)]
    assert [(each.action[0], each.step[0]) for each in steps[1:]] == [(0, 1), (1, 2), (2, 3)]
    assert len(service.calls) == 4


def test_a_call_has_a_bound_and_names_are_not_mixed_with_indices(client, service):
    with client.inference.batch(max_rows=3) as batch:
        sends: list[tuple[Any, ...]] = [(f"r{n}", [SMALL, BIG], [[n], [n]]) for n in range(2)]
        sends += [("many", [SMALL] * 5, [[1]] * 5), ("x", [SMALL], [[1]]), ("y", [0], [[1]])]
        send_while_busy(batch, service, sends)
        received(batch, 6)
    assert [len(call) for call in service.calls] == [1, 2, 2, 5, 1, 1]


def test_send_waits_while_too_many_rows_wait(client, service):
    with client.inference.batch(max_waiting=3) as batch:
        service.open.clear()
        batch.send("first", [SMALL], [[1]])
        until(service.asked.is_set)
        batch.send("a", [SMALL] * 3, [[1]] * 3)
        with pytest.raises(UnavailableError, match="3 rows are waiting"):
            batch.send("b", [SMALL], [[1]], timeout_s=0.01)
        with ThreadPoolExecutor() as threads:
            waits = threads.submit(batch.send, "b", [SMALL], [[1]], timeout_s=FAR_S)
            service.open.set()
            assert waits.result(FAR_S)
        assert received(batch, 3).keys() == {"first", "a", "b"}


def test_a_refused_send_fails_alone(client, service):
    with client.inference.batch() as batch:
        sends = [("a", [SMALL], [[1]]), ("b", ["nowhere"], [[1]]), ("c", [SMALL], [[1]])]
        send_while_busy(batch, service, sends)
        results = received(batch, 4)
    assert results["a"].predictions.step[0] == results["c"].predictions.step[0] == 1
    with pytest.raises(NotFoundError, match="Unknown junction 'nowhere'"):
        _ = results["b"].predictions


def test_a_lost_answer_is_an_error_of_each_run_and_its_key_repeats_the_steps(client, service):
    service.lost = {2}
    with client.inference.batch() as batch:
        send_while_busy(batch, service, [("a", [SMALL], [[1]]), ("b", [BIG] * 2, [[1, 0, 1]] * 2)])
        results = received(batch, 3)
        assert isinstance(results["a"].error, UnknownOutcomeError)
        again = client.inference.infer([[1, 0, 1]] * 2, [BIG] * 2, runs="b", key=results["b"].key)
        assert again.step.tolist() == [1, 2]
        batch.send("a", [SMALL], [[1]])
        assert batch.recv(FAR_S).predictions.step[0] == 2


def test_wrong_input_is_refused_by_send(client):
    with client.inference.batch() as batch:
        for wrong in (("a b", [SMALL], [[1]]), ("a", [SMALL], [1]), ("a", [], [])):
            with pytest.raises(InvalidInputError):
                batch.send(*wrong)


def test_close_sends_what_waits_and_then_ends(client, service):
    batch = client.inference.batch()
    send_while_busy(batch, service, [(f"r{n}", [SMALL], [[1]]) for n in range(5)])
    with ThreadPoolExecutor() as threads:
        batch.close()
        assert received(batch, 6).keys() == {"first", *(f"r{n}" for n in range(5))}
        for end in (lambda: batch.recv(), lambda: batch.send("r", [SMALL], [[1]])):
            with pytest.raises(InvalidInputError, match="closed"):
                threads.submit(end).result(FAR_S)
    batch.close()
    assert "greenwave-batch" not in {thread.name for thread in threading.enumerate()}


def test_close_wakes_those_that_wait(client):
    batch = client.inference.batch()
    with ThreadPoolExecutor() as threads:
        waits = [threads.submit(batch.recv) for _ in range(3)]
        time.sleep(0.01)
        batch.close()
        for each in waits:
            with pytest.raises(InvalidInputError, match="closed"):
                each.result(FAR_S)
