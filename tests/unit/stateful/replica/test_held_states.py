"""States in memory: their rows, batches of them, and the responses that wait for their commits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from deployments.stateful.protocol import (
    Grant,
    Key,
    OutcomeUnknownError,
    StaleSessionError,
    Version,
)
from deployments.stateful.replica.held_state import HeldBatch
from deployments.stateful.replica.held_states import HeldStates
from deployments.stateful.replica.phases import Event, Phase
from deployments.stateful.replica.queues import StepResults
from deployments.stateful.replica.slab import Slab

N = 200  # more than the first rows of a slab


class Responses:
    """Notes what becomes of the responses of a batch."""

    def __init__(self) -> None:
        self.ended: list[tuple[list[int] | None, object]] = []

    def respond(self, which: Sequence[int] | None, results: StepResults) -> None:
        self.ended.append((None if which is None else list(which), results.steps))

    def fail(self, which: Sequence[int] | None, error: Exception) -> None:
        self.ended.append((None if which is None else list(which), type(error)))


def owned(n: int) -> tuple[HeldStates, HeldBatch]:
    """Return n owned states, each filled with its number."""
    held = HeldStates()
    for number in range(n):
        key = Key(f"run-{number}", "1")
        held.request(key)
        held.grant(key, Grant(Version(1, 0), None), np.full(3, number, np.float32))
    return held, held.batch_of(held.in_phase(Phase.OWNED))


def step(held: HeldStates, batch: HeldBatch) -> StepResults:
    held.advance(batch, batch.gather() + 1)
    return StepResults([()] * len(batch), batch.steps.tolist())


def test_a_batch_steps_its_states_and_no_others_while_the_slab_grows():
    held, batch = owned(N)
    step(held, batch.part(range(0, N, 2)))
    values = [state.state[0] for state in batch.states]
    assert values == [number + (number % 2 == 0) for number in range(N)]
    assert batch.steps.tolist() == [int(number % 2 == 0) for number in range(N)]


@pytest.mark.parametrize(
    "which",
    [[3], [3, 4, 5], [5, 4, 3], [3, 5, 4, 6], [4, 3, 6, 5], [1, 7, 2], []],
    ids=lambda which: "-".join(map(str, which)) or "none",
)
def test_a_batch_steps_its_states_in_its_order_whatever_rows_they_have(which):
    held, batch = owned(8)
    part = batch.part(which)
    before, steps = part.gather(), part.steps
    held.advance(part, np.arange(len(which) * 3, dtype=np.float32).reshape(-1, 3))
    assert before[:, :1].ravel().tolist() == which, "what was gathered is a copy"
    assert steps.tolist() == [0] * len(which), "as are the numbers of steps"
    stepped = dict(zip(which, range(0, 30, 3), strict=False))
    assert [each.state[0] for each in batch.states] == [stepped.get(n, n) for n in range(8)]
    committed, _ = held.outgoing(5000)
    assert committed.keys == part.keys
    held.acknowledge(committed.rows, committed.steps)
    assert [each.committed for each in batch.states] == [int(n in which) for n in range(8)]


def test_a_row_is_used_again_only_when_nothing_refers_to_its_state():
    held, batch = owned(2)
    rows = set(batch.row_numbers.tolist())
    for key in batch.keys:
        held.fire(key, Event.REFUSED)
    held.request(Key("another", "1"))
    (another,) = held.in_phase(Phase.REQUESTED)
    assert another.row not in rows
    del batch
    for number in range(2):
        held.request(Key(f"later-{number}", "1"))
    assert rows <= {state.row for state in held.in_phase(Phase.REQUESTED)}


def test_a_row_that_is_used_again_begins_with_counters_of_zero():
    slab = Slab()
    row = slab.take()
    slab.steps[row] = slab.sent[row] = 7
    slab.free(row)
    assert slab.take() == row
    assert slab.steps[row] == slab.sent[row] == 0


def test_a_batch_is_not_owned_once_one_of_its_states_is_recalled():
    held, batch = owned(3)
    assert batch.owned
    held.recall(batch.keys[1])
    assert not batch.owned


def test_responses_are_sent_as_their_states_are_committed_each_once():
    held, batch = owned(3)
    responses = Responses()
    held.pending.add(batch, responses, step(held, batch))
    held.outgoing(5000)
    held.acknowledge(batch.row_numbers[[2]], [1])
    held.acknowledge(batch.row_numbers[[2]], [1])
    held.acknowledge(batch.rows, [1, 1, 1])
    assert [which for which, _ in responses.ended] == [[2], [0, 1]]
    assert not held.pending


def test_responses_of_lost_states_fail_by_whether_their_steps_were_sent():
    held, batch = owned(3)
    responses = Responses()
    first = step(held, batch)
    held.outgoing(5000)  # sends them
    held.pending.add(batch, responses, first)
    second = batch.part([0, 2])
    held.pending.add(second, responses, step(held, second))
    held.pending.fail([batch.states[0]])
    assert responses.ended == [([0], OutcomeUnknownError), ([0], StaleSessionError)]
    held.outgoing(5000)
    held.acknowledge(batch.rows, [1, 1, 2])
    assert [which for which, _ in responses.ended[2:]] == [[1, 2], [1]]


def test_a_response_to_a_step_that_is_in_flight_is_sent_by_its_commit():
    held, batch = owned(1)
    results, responses = step(held, batch), Responses()
    held.outgoing(5000)
    held.pending.add(batch, responses, results)
    held.acknowledge(batch.rows, [1])
    assert responses.ended == [(None, [1])]


def test_all_responses_of_a_batch_fail_together():
    held, batch = owned(2)
    responses = Responses()
    held.pending.add(batch, responses, step(held, batch))
    held.pending.fail(batch.states)
    assert responses.ended == [(None, StaleSessionError)]
    assert not held.pending
