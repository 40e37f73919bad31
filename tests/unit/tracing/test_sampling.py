"""Which requests are traced, and how many at most."""

import random

import pytest

from deployments.trace_context import NOT_TRACED, Trace
from deployments.tracing.spans import MAX_PER_S, Sampler
from tests.support.virtual_time import Clock

TRACE = Trace(7, 9)


def test_the_share_is_of_requests_without_a_trace():
    clock = Clock()
    sampler = Sampler(0.1, clock, random.Random(1))
    began = 0
    for _ in range(10_000):
        clock.now += 0.01
        began += sampler.decide(None) == []
    assert 900 < began < 1100


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_sender_decides_whatever_the_share_is(share):
    sampler = Sampler(share, Clock())
    assert sampler.decide(str(TRACE)) == [TRACE]
    assert sampler.decide(NOT_TRACED) is None


@pytest.mark.parametrize("header", ["", "rubbish"])
def test_a_header_that_says_nothing_leaves_the_decision_to_the_share(header):
    assert Sampler(0.0, Clock()).decide(header) is None
    assert Sampler(1.0, Clock()).decide(header) == []


def test_clients_cannot_ask_for_more_traces_than_a_process_makes():
    clock = Clock()
    sampler = Sampler(0.0, clock)
    assert sum(bool(sampler.decide(str(TRACE))) for _ in range(10_000)) == MAX_PER_S
    clock.now = 0.5
    assert sum(bool(sampler.decide(str(TRACE))) for _ in range(10_000)) == MAX_PER_S // 2
    clock.now = 3600.0
    assert sum(bool(sampler.decide(str(TRACE))) for _ in range(10_000)) == MAX_PER_S
