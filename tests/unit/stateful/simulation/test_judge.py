"""Every invariant of the judge can be violated, and a clean history violates none."""

from __future__ import annotations

import contextlib

import pytest

from tests.unit.stateful.simulation.excuses import Violation
from tests.unit.stateful.simulation.handmade import (
    HERE,
    KEY,
    MATE,
    STRANGER,
    THERE,
    HandmadeHistory,
)
from tests.unit.stateful.simulation.history import INITIAL, Fault, Outcome, Step
from tests.unit.stateful.simulation.judge import judge_recovery
from tests.unit.stateful.simulation.network import STORE

HUNG_S = 5.0
BOUND_S = HandmadeHistory().cluster.options.loss_bound_s


def violates(message: str, expected: bool = True) -> contextlib.AbstractContextManager[object]:
    return pytest.raises(Violation, match=message) if expected else contextlib.nullcontext()


@pytest.mark.parametrize("durability", ["memory", "actor", "store"])
def test_a_clean_history_violates_nothing(durability):
    handmade = HandmadeHistory(durability=durability)
    first = handmade.step(1.0, request_id="twice")
    handmade.respond(handmade.send(1.1, replica=THERE, request_id="twice"), first, 1.2)
    handmade.end(handmade.send(1.3), Outcome.REFUSED, 1.4)
    handmade.end(left := handmade.send(1.5), Outcome.CANCELLED, 1.6)
    handmade.step(1.7, handmade.make(left, 1.55, first), replica=THERE)
    handmade.step(1.8, key=STRANGER)
    assert not handmade.judge()


def test_a_defect():
    handmade = HandmadeHistory()
    handmade.history.defects.append("an unhandled error")
    with violates("an unhandled error"):
        handmade.judge()


@pytest.mark.parametrize("answered_with", [0, 1])
def test_two_steps_for_one_request(answered_with):
    handmade = HandmadeHistory()
    request = handmade.send(1.0)
    steps = [handmade.make(request, 1.0, None), handmade.make(request, 1.01, None)]
    handmade.respond(request, steps[answered_with], 1.1)
    with violates("was stepped 2 times"):
        handmade.judge()


@pytest.mark.parametrize(
    ("key", "request_id", "of_the_first"),
    [(KEY, None, None), (KEY, "mine", "yours"), (KEY, "mine", None), (MATE, "same", "same")],
)
def test_a_response_with_the_step_of_another_request(key, request_id, of_the_first):
    handmade = HandmadeHistory()
    first = handmade.step(1.0, request_id=of_the_first)
    handmade.respond(handmade.send(1.1, key, request_id=request_id), first, 1.2)
    with violates("was answered with the step of"):
        handmade.judge()


def test_a_wrong_step_number():
    handmade = HandmadeHistory()
    handmade.step(1.1, handmade.step(1.0))
    handmade.history.requests[1].step = 3
    with violates("is number 2 since the initial state"):
        handmade.judge()


@pytest.mark.parametrize("committed_at", [None, 1.1])
@pytest.mark.parametrize("durability", ["memory", "store_async", "actor", "store"])
def test_a_response_before_its_commit_where_responses_wait(durability, committed_at):
    handmade = HandmadeHistory(durability=durability)
    handmade.step(1.0).committed_at = committed_at
    with violates("without a commit", durability in ("actor", "store")):
        handmade.judge()


@pytest.mark.parametrize("restores", [False, True])
def test_a_step_from_before_a_restart_unless_states_are_restored(restores):
    handmade = HandmadeHistory(restore_after_restart=restores)
    handmade.step(2.0, handmade.step(1.0))
    handmade.history.restarts.append(1.5)
    with violates("before the restart", not restores):
        handmade.judge()


@pytest.mark.parametrize("brought_back", [False, True])
def test_a_step_from_before_a_restart_unless_a_rollback_of_the_store_brought_it_back(brought_back):
    handmade = HandmadeHistory()
    first = handmade.step(1.0)
    handmade.step(2.0, first)
    handmade.history.restarts.append(1.5)
    handmade.history.faults.append(Fault("rolled back", STORE, 1.8, 1.8))
    kept = first.number if brought_back else INITIAL
    handmade.history.snapshots[KEY] = [(1.1, first.number), (1.6, INITIAL), (1.8, kept)]
    with violates("before the restart", not brought_back):
        handmade.judge()


@pytest.mark.parametrize("n_kept", [0, 1])
@pytest.mark.parametrize("durability", ["memory", "actor"])
def test_a_fork_without_a_fault(n_kept, durability):
    handmade = HandmadeHistory(durability=durability)
    kept = handmade.step(1.0) if n_kept else None
    handmade.step(2.0, kept)
    handmade.step(3.0, kept, replica=THERE)
    with violates("is lost"):
        handmade.judge()


@pytest.mark.parametrize(
    ("outcome", "made_at", "request_id", "violated"),
    [
        (Outcome.REFUSED, 1.0, None, True),
        (Outcome.CANCELLED, 1.3, None, True),
        (Outcome.CANCELLED, 1.0, None, False),  # before its client left
        (Outcome.UNKNOWN, 1.0, None, False),
        (Outcome.REFUSED, 1.0, "again", False),  # another attempt may have been stepped
    ],
)
def test_a_step_after_a_refused_request(outcome, made_at, request_id, violated):
    handmade = HandmadeHistory()
    request = handmade.send(1.0, request_id=request_id)
    handmade.end(request, outcome, 1.2)
    handmade.step(2.0, handmade.make(request, made_at, None))
    with violates("which was refused", violated):
        handmade.judge()


@pytest.mark.parametrize(
    ("run", "sent", "done", "violated"),
    [
        (KEY.run, 1.5, 1.6, True),
        (STRANGER.run, 1.5, 1.6, False),
        (KEY.run, 1.5, None, False),
        (KEY.run, 1.5, 2.1, False),  # the step may have been first
        (KEY.run, 0.9, 1.6, False),  # the root may have been last
    ],
)
def test_a_step_from_before_a_reset_that_was_done(run, sent, done, violated):
    handmade = HandmadeHistory()
    handmade.step(2.0, handmade.step(1.0))
    handmade.reset(run, sent, done)
    with violates("continues from", violated):
        handmade.judge()


def test_two_steps_in_one_line_for_a_repeated_request():
    handmade = HandmadeHistory()
    between = handmade.step(1.1, handmade.step(1.0, request_id="once"))
    again = handmade.send(1.2, replica=THERE, request_id="once")
    handmade.respond(again, handmade.make(handmade.history.requests[0], 1.2, between), 1.3)
    with violates("once was stepped twice: states 1 and 3"):
        handmade.judge()


@pytest.mark.parametrize("outcome", [Outcome.PENDING, Outcome.RESPONDED, Outcome.UNKNOWN])
def test_a_request_that_hangs_unless_its_replica_stalls(outcome):
    handmade = HandmadeHistory()
    hung = handmade.send(1.0)
    end = handmade.cluster.loop.now = 1.0 + HUNG_S
    if outcome is Outcome.RESPONDED:
        handmade.respond(hung, handmade.make(hung, 1.0, None), end)
    elif outcome is not Outcome.PENDING:
        handmade.end(hung, outcome, end)
    handmade.fault("stalled", THERE, 1.0, end)
    handmade.fault("cut", HERE, 1.0, end)
    handmade.fault("stalled", HERE, 0.0, 1.2)
    with violates("has hung"):
        handmade.judge()
    handmade.fault("stalled", HERE, 1.2, end)
    assert not handmade.judge()


def test_a_request_that_hangs_unless_its_replica_is_dead():
    handmade = HandmadeHistory()
    with contextlib.closing(handmade.cluster.loop):
        for _ in range(2):
            handmade.cluster.add_replica()
        handmade.send(1.0, replica=HERE)
        handmade.cluster.loop.now = 1.0 + HUNG_S
        handmade.cluster.replicas[1].process.die()
        with violates("has hung"):
            handmade.judge()
        handmade.cluster.replicas[0].process.die()
        assert not handmade.judge()


def _lose_two(apart_s: float, replica: str = HERE) -> tuple[HandmadeHistory, Step]:
    """Let replicas die with two uncommitted steps; return the first of these."""
    handmade = HandmadeHistory()
    kept = handmade.step(1.0)
    oldest = handmade.step(2.0, kept, committed=False)
    handmade.step(2.0 + apart_s, oldest, replica=replica, committed=False)
    handmade.step(3.0, kept, replica=THERE)
    handmade.fault("dead", HERE, 2.1, 2.1)
    handmade.fault("dead", THERE, 2.1, 2.1)
    return handmade, oldest


def test_steps_lost_with_a_replica_beyond_the_loss_bound():
    assert _lose_two(0.5 * BOUND_S)[0].judge() == {"not committed: the replica dead": 2}
    with violates("after the oldest step that was lost with it"):
        _lose_two(1.5 * BOUND_S)[0].judge()


def test_steps_that_waited_for_different_commits_have_their_own_bounds():
    handmade, oldest = _lose_two(1.5 * BOUND_S)
    oldest.refused_at = 2.0 + BOUND_S
    assert handmade.judge().total() == 2
    handmade, _ = _lose_two(1.5 * BOUND_S)
    handmade.history.sessions[HERE] = [2.0 + BOUND_S]
    assert handmade.judge().total() == 2
    assert _lose_two(1.5 * BOUND_S, replica=THERE)[0].judge().total() == 2


@pytest.mark.parametrize(("shards", "violated"), [(1, True), (2, False)])
def test_steps_under_one_authority_have_one_bound(shards, violated):
    handmade = HandmadeHistory()
    handmade.history.shards_of[HERE] = shards
    kept, other = handmade.step(1.0), handmade.step(1.0, key=MATE)
    handmade.step(2.0, kept, committed=False)
    handmade.step(2.0 + 1.5 * BOUND_S, other, key=MATE, committed=False)
    handmade.step(3.0, kept, replica=THERE)
    handmade.step(3.0, other, key=MATE, replica=THERE)
    handmade.fault("dead", HERE, 2.1, 2.1)
    with violates("after the oldest step that was lost with it", violated):
        assert handmade.judge().total() == 2


def test_recovery_requires_responses_and_snapshots_of_them():
    handmade = HandmadeHistory()
    last = handmade.history.requests
    step = handmade.step(1.0)
    with violates("the store does not have the newest state"):
        judge_recovery(handmade.cluster, last)
    handmade.write_snapshot(step, 1.1)
    judge_recovery(handmade.cluster, last)
    handmade.write_snapshot(handmade.step(0.9, key=MATE), 1.1)  # under the key of the other one
    with violates(MATE.entity):
        judge_recovery(handmade.cluster, last)
    last[1:] = [handmade.send(1.2)]
    with violates("has not recovered"):
        judge_recovery(handmade.cluster, last)
