from __future__ import annotations

import pytest

from deployments.customers.records.deployment import SAMPLE, RecordMetrics
from deployments.customers.records.errors import InvalidMobileNumber
from tests.unit.metrics.recorded import RecordedMetrics


@pytest.fixture
def recorded(monkeypatch):
    return RecordedMetrics(monkeypatch)


def operations(recorded: RecordedMetrics) -> dict[tuple[str, ...], float]:
    return {key[1:]: value for key, value in recorded.counted.items() if value}


def test_refusals_of_the_store_are_told_before_the_first(recorded):
    RecordMetrics("loans").publish()
    told = {key[2:]: value for key, value in recorded.counted.items()}
    assert told["fetch", "unavailable"] == told["create", "ok"] == 0


def test_operations_are_counted_by_service_operation_and_outcome(recorded):
    metrics = RecordMetrics("loans")
    for outcome in ("success", "success", "not_found"):
        metrics.observe("fetch", outcome, 1.5)
    metrics.publish()
    metrics.publish()  # nothing new
    assert operations(recorded) == {
        ("loans", "fetch", "success"): 2,
        ("loans", "fetch", "not_found"): 1,
    }
    name = "customer_record_store_latency_ms"
    assert recorded.observed == [((name, "loans", "fetch"), 1.5)] * 3


def test_what_never_reached_the_store_says_nothing_of_its_latency(recorded):
    metrics = RecordMetrics("cards")
    metrics.observe("create", InvalidMobileNumber.outcome, 0.01)
    metrics.publish()
    assert operations(recorded) == {("cards", "create", InvalidMobileNumber.outcome): 1}
    assert recorded.observed == []


def test_latencies_are_a_bounded_sample_and_counts_are_exact(recorded):
    metrics = RecordMetrics("accounts")
    for _ in range(3 * SAMPLE):
        metrics.observe("fetch", "success", 1.0)
    metrics.publish()
    assert operations(recorded) == {("accounts", "fetch", "success"): 3 * SAMPLE}
    assert len(recorded.observed) == SAMPLE
    metrics.observe("fetch", "success", 2.0)
    metrics.publish()
    assert recorded.observed[-1][1] == 2.0
