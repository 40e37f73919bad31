"""Every law of the judge is one that a history can break, and a clean history breaks none."""

from __future__ import annotations

import contextlib

import pytest

from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.excuses import Breach
from tests.unit.stateful.simulation.forgery import HERE, KEY, MATE, STRANGER, THERE, Forgery
from tests.unit.stateful.simulation.history import Made, Outcome
from tests.unit.stateful.simulation.judge import judge_recovery

HUNG_S = 5.0


@pytest.mark.parametrize("options", [{}, {"durability": "actor"}, {"durability": "store"}])
def test_a_clean_history_is_no_breach(options: dict[str, object]) -> None:
    forged = Forgery(**options)
    first = forged.step(1.0, request_id="twice")
    forged.answer(forged.ask(1.1, replica=THERE, request_id="twice"), first, 1.2)
    forged.end(forged.ask(1.3), Outcome.REFUSED, 1.4)
    forged.end(unheard := forged.ask(1.5), Outcome.CANCELLED, 1.6)
    forged.step(1.7, forged.make(unheard, 1.55, first), replica=THERE)
    forged.step(1.8, key=STRANGER)
    assert not forged.judge()


def test_a_defect_is_a_breach() -> None:
    forged = Forgery()
    forged.history.defects.append("an error that nobody has handled")
    with pytest.raises(Breach, match="an error that nobody has handled"):
        forged.judge()


@pytest.mark.parametrize("answered_with", [0, 1])
def test_a_request_that_was_stepped_twice_is_a_breach(answered_with: int) -> None:
    forged = Forgery()
    asked = forged.ask(1.0)
    made = [forged.make(asked, 1.0, None), forged.make(asked, 1.01, None)]
    forged.answer(asked, made[answered_with], 1.1)
    with pytest.raises(Breach, match="was stepped 2 times"):
        forged.judge()


@pytest.mark.parametrize(
    ("key", "request_id", "of_the_first"),
    [(KEY, None, None), (KEY, "mine", "yours"), (KEY, "mine", None), (MATE, "same", "same")],
)
def test_an_answer_with_the_step_of_another_request_is_a_breach(
    key: Key, request_id: str | None, of_the_first: str | None
) -> None:
    forged = Forgery()
    first = forged.step(1.0, request_id=of_the_first)
    forged.answer(forged.ask(1.1, key, request_id=request_id), first, 1.2)
    with pytest.raises(Breach, match="was answered with the step of"):
        forged.judge()


def test_a_wrong_step_number_is_a_breach() -> None:
    forged = Forgery()
    forged.step(1.1, forged.step(1.0))
    forged.history.asked[1].step = 3
    with pytest.raises(Breach, match="is number 2 since zeros"):
        forged.judge()


@pytest.mark.parametrize("committed_at", [None, 1.1])
def test_an_answer_before_its_commit_is_a_breach_in_strict_mode_alone(
    committed_at: float | None,
) -> None:
    for strict in (False, True):
        forged = Forgery(durability="actor" if strict else "memory")
        forged.step(1.0).committed_at = committed_at
        with pytest.raises(Breach, match="without a commit") if strict else _clean():
            forged.judge()


def test_a_step_from_before_a_restart_is_a_breach_unless_states_are_restored() -> None:
    for restores in (False, True):
        forged = Forgery(restore_after_restart=restores)
        forged.step(2.0, forged.step(1.0))
        forged.history.restarts.append(1.5)
        with _clean() if restores else pytest.raises(Breach, match="before the restart"):
            forged.judge()


@pytest.mark.parametrize("n_kept", [0, 1])
@pytest.mark.parametrize("strict", [False, True])
def test_a_fork_without_a_fault_is_a_breach(n_kept: int, strict: bool) -> None:
    forged = Forgery(durability="actor" if strict else "memory")
    kept = forged.step(1.0) if n_kept else None
    forged.step(2.0, kept)
    forged.step(3.0, kept, replica=THERE)
    with pytest.raises(Breach, match="is lost"):
        forged.judge()


@pytest.mark.parametrize(
    ("outcome", "made_at", "request_id", "breach"),
    [
        (Outcome.REFUSED, 1.0, None, True),
        (Outcome.CANCELLED, 1.3, None, True),
        (Outcome.CANCELLED, 1.0, None, False),  # before its client had left
        (Outcome.UNKNOWN, 1.0, None, False),
        (Outcome.REFUSED, 1.0, "again", False),  # another attempt may have been stepped
    ],
)
def test_a_step_after_a_refused_request_is_a_breach(
    outcome: Outcome, made_at: float, request_id: str | None, breach: bool
) -> None:
    forged = Forgery()
    asked = forged.ask(1.0, request_id=request_id)
    forged.end(asked, outcome, 1.2)
    forged.step(2.0, forged.make(asked, made_at, None))
    with pytest.raises(Breach, match="which was refused") if breach else _clean():
        forged.judge()


@pytest.mark.parametrize(
    ("run", "sent", "done", "breach"),
    [
        (KEY.run, 1.5, 1.6, True),
        (STRANGER.run, 1.5, 1.6, False),
        (KEY.run, 1.5, None, False),
        (KEY.run, 1.5, 2.1, False),  # the step may have been first
        (KEY.run, 0.9, 1.6, False),  # the root may have been last
    ],
)
def test_a_step_from_before_a_reset_is_a_breach_once_it_was_done(
    run: str, sent: float, done: float | None, breach: bool
) -> None:
    forged = Forgery()
    forged.step(2.0, forged.step(1.0))
    forged.reset(run, sent, done)
    with pytest.raises(Breach, match="continues from") if breach else _clean():
        forged.judge()


def test_a_repeated_request_that_was_stepped_twice_in_one_line_is_a_breach() -> None:
    forged = Forgery()
    between = forged.step(1.1, forged.step(1.0, request_id="once"))
    again = forged.ask(1.2, replica=THERE, request_id="once")
    forged.answer(again, forged.make(forged.history.asked[0], 1.2, between), 1.3)
    with pytest.raises(Breach, match="once was stepped twice: states 1 and 3"):
        forged.judge()


@pytest.mark.parametrize("ends", [Outcome.PENDING, Outcome.ANSWERED, Outcome.UNKNOWN])
def test_a_request_that_waits_too_long_is_a_breach(ends: Outcome) -> None:
    forged = Forgery()
    hung = forged.ask(1.0)
    forged.world.loop.now = 1.0 + HUNG_S
    if ends is Outcome.ANSWERED:
        forged.answer(hung, forged.make(hung, 1.0, None), forged.world.loop.now)
    elif ends is not Outcome.PENDING:
        forged.end(hung, ends, forged.world.loop.now)
    forged.fault("stalled", THERE, 1.0, 1.0 + HUNG_S)
    forged.fault("cut", HERE, 1.0, 1.0 + HUNG_S)
    forged.fault("stalled", HERE, 0.0, 1.2)
    with pytest.raises(Breach, match="has hung"):
        forged.judge()
    forged.fault("stalled", HERE, 1.2, 1.0 + HUNG_S)
    assert not forged.judge()


def test_only_a_dead_replica_need_not_answer() -> None:
    forged = Forgery()
    with contextlib.closing(forged.world.loop):
        for _ in range(2):
            forged.world.add_replica()
        forged.ask(1.0, replica=HERE)
        forged.world.loop.now = 1.0 + HUNG_S
        forged.world.replicas[1].process.die()
        with pytest.raises(Breach, match="has hung"):
            forged.judge()
        forged.world.replicas[0].process.die()
        assert not forged.judge()


BOUND_S = Forgery().world.options.loss_bound_s


def _lose_two(apart_s: float, replica: str = HERE) -> tuple[Forgery, Made]:
    """Let replicas die with two steps that were not committed; return the first of these."""
    forged = Forgery()
    kept = forged.step(1.0)
    oldest = forged.step(2.0, kept, committed=False)
    forged.step(2.0 + apart_s, oldest, replica=replica, committed=False)
    forged.step(3.0, kept, replica=THERE)
    forged.fault("dead", HERE, 2.1, 2.1)
    forged.fault("dead", THERE, 2.1, 2.1)
    return forged, oldest


def test_what_a_dead_replica_may_cost_is_bound_in_time() -> None:
    assert _lose_two(0.5 * BOUND_S)[0].judge() == {"not committed: the replica dead": 2}
    with pytest.raises(Breach, match="after the oldest step that was lost with it"):
        _lose_two(1.5 * BOUND_S)[0].judge()


def test_steps_that_did_not_wait_for_one_commit_are_bound_each_by_itself() -> None:
    forged, oldest = _lose_two(1.5 * BOUND_S)
    oldest.refused_at = 2.0 + BOUND_S
    assert forged.judge().total() == 2
    forged, _ = _lose_two(1.5 * BOUND_S)
    forged.history.sessions[HERE] = [2.0 + BOUND_S]
    assert forged.judge().total() == 2
    assert _lose_two(1.5 * BOUND_S, replica=THERE)[0].judge().total() == 2


@pytest.mark.parametrize(("shards", "bound_together"), [(1, True), (2, False)])
def test_steps_are_bound_together_that_one_authority_of_their_replica_commits(
    shards: int, bound_together: bool
) -> None:
    forged = Forgery()
    forged.history.shards_of[HERE] = shards
    kept, other = forged.step(1.0), forged.step(1.0, key=MATE)
    forged.step(2.0, kept, committed=False)
    forged.step(2.0 + 1.5 * BOUND_S, other, key=MATE, committed=False)
    forged.step(3.0, kept, replica=THERE)
    forged.step(3.0, other, key=MATE, replica=THERE)
    forged.fault("dead", HERE, 2.1, 2.1)
    if bound_together:
        with pytest.raises(Breach, match="after the oldest step that was lost with it"):
            forged.judge()
    else:
        assert forged.judge().total() == 2


def test_recovery_is_an_answer_from_everybody_and_a_copy_of_it() -> None:
    forged = Forgery()
    last = forged.history.asked
    made = forged.step(1.0)
    with pytest.raises(Breach, match="the store does not have the newest state"):
        judge_recovery(forged.world, last)
    forged.copy(made, 1.1)
    judge_recovery(forged.world, last)
    forged.copy(forged.step(0.9, key=MATE), 1.1)  # not a copy of its own key
    with pytest.raises(Breach, match=MATE.entity):
        judge_recovery(forged.world, last)
    last[1:] = [forged.ask(1.2)]
    with pytest.raises(Breach, match="has not recovered"):
        judge_recovery(forged.world, last)


def _clean() -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()
