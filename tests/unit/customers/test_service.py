"""The service itself: numbers, a failing store, and what it measures."""

import asyncio
from http import HTTPStatus
from itertools import chain

import pytest

from deployments.customers import record_types
from deployments.customers.records.deployment import RecordMetrics
from deployments.customers.records.errors import INVALID
from deployments.customers.records.service import random_number
from deployments.store import StoreUnavailable
from tests.unit.customers.requests import MOBILE, OTHER_MOBILE
from tests.unit.metrics.recorded import RecordedMetrics

LOANS = record_types()["loans"]


class BrokenStore:
    """A store that fails at every call."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getattr__(self, name: str):
        async def fail(*_: object) -> None:
            raise self._error

        return fail


@pytest.mark.parametrize("length", [10, 12])
def test_random_numbers_have_their_length_and_no_leading_zero(length):
    numbers = [random_number(length) for _ in range(1000)]
    assert {len(number) for number in numbers} == {length}
    assert not any(number.startswith("0") for number in numbers)
    assert len(set(numbers)) > 990


async def test_a_taken_number_is_drawn_again(make_service):
    draws = chain(["111111111111"] * 3, ["222222222222"])
    loans = make_service(LOANS, draw_number=lambda _: next(draws))
    await loans.create(MOBILE)
    assert (await loans.created(OTHER_MOBILE))["loanNumber"] == "222222222222"


async def test_when_no_free_number_is_found_nothing_is_created(make_service):
    loans = make_service(LOANS, draw_number=lambda _: "111111111111")
    await loans.create(MOBILE)
    answer = await loans.create(OTHER_MOBILE)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["errorMessage"] == "No free record number was found"
    assert (await loans.fetch(OTHER_MOBILE)).status_code == 404


@pytest.fixture
def seen():
    return []


@pytest.fixture
def observe(seen):
    """Note operations and their outcomes, which took a time that is possible."""

    def observe(operation, outcome, latency_ms):
        assert 0 <= latency_ms < 10_000
        seen.append((operation, outcome))

    return observe


async def test_a_request_whose_client_has_gone_is_no_failure(make_service, observe, seen):
    loans = make_service(LOANS, BrokenStore(asyncio.CancelledError()), observe)
    with pytest.raises(asyncio.CancelledError):
        await loans.fetch(MOBILE)
    assert seen == [("fetch", "cancelled")]


async def test_operations_are_observed_with_their_outcome(make_service, observe, seen):
    loans = make_service(LOANS, observe=observe)
    record = await loans.created(MOBILE)
    await loans.update(record)
    await loans.create(MOBILE)
    await loans.fetch("12")
    await loans.update({})
    await loans.update({**record, "loanNumber": "9" * 12})
    await loans.delete(OTHER_MOBILE)
    await loans.delete(MOBILE)
    assert seen == [
        ("create", "ok"),
        ("fetch", "ok"),
        ("update", "ok"),
        ("create", "duplicate"),
        ("fetch", "invalid"),
        ("update", "invalid"),
        ("update", "not_found"),
        ("delete", "not_found"),
        ("delete", "ok"),
    ]


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (StoreUnavailable("redis: /secret/path"), 503, "The record store is not available"),
        (ZeroDivisionError("/secret/path"), 500, "An unexpected error occurred"),
    ],
)
async def test_a_failing_store_is_an_error_response_without_details(
    make_service, error, status, message, caplog, observe, seen
):
    answer = await make_service(LOANS, BrokenStore(error), observe).fetch(MOBILE)
    assert answer.status_code == status
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)
    body = answer.json()
    assert body["errorMessage"] == message
    assert body["errorCode"] == HTTPStatus(status).name
    assert "secret" not in answer.text
    assert seen == [("fetch", "unavailable" if isinstance(error, StoreUnavailable) else "failed")]
    if status == 500:  # the store itself says when it goes and when it is back
        assert str(error) in caplog.text


def test_operations_are_counted_and_the_latency_of_those_that_reached_the_store(monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    metrics = RecordMetrics("loans")
    metrics.publish()
    told = {key[2:]: value for key, value in recorded.counted.items()}
    assert told["fetch", "unavailable"] == told["create", "ok"] == 0, "before the first"
    for outcome in ("ok", "ok", "not_found", INVALID):
        metrics.observe("fetch", outcome, 1.5)
    metrics.publish()
    metrics.publish()  # nothing new
    assert {key[1:]: value for key, value in recorded.counted.items() if value} == {
        ("loans", "fetch", "ok"): 2,
        ("loans", "fetch", "not_found"): 1,
        ("loans", "fetch", INVALID): 1,
    }
    name = "customer_record_store_latency_ms"
    assert recorded.observed == [((name, "loans", "fetch"), 1.5)] * 3
