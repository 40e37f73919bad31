"""Attempts with one idempotency key are one step, and a second step for one key is found."""

from __future__ import annotations

from deployments.stateful.protocol import Key
from load_tests.chaos.attempts import steps_of
from load_tests.chaos.history import Asked, History, Outcome
from load_tests.chaos.lineage import Harm, judge

KEY = Key("run", "junction")


def attempt(
    request: str | None,
    sent: float,
    step: int = 0,
    body: bytes = b"",
) -> Asked:
    """Return an attempt of half a second; without a step, it is not known what became of it."""
    outcome = Outcome.ANSWERED if step else Outcome.UNKNOWN
    return Asked(KEY, sent, sent + 0.5, outcome, step, request, body)


def harms(*asked: Asked, fault: float = 50.0) -> dict[Harm, int]:
    verdict = judge(History(list(asked)), [fault])
    return {harm: verdict.steps(harm) for harm in Harm if verdict.steps(harm)}


def test_attempts_at_one_request_are_one_step_made_by_the_first_answer() -> None:
    attempts = [attempt("a", 0), attempt("a", 1, step=1), attempt("a", 2, step=1)]
    assert [(each.sent, each.done, each.step) for each in steps_of(attempts)] == [(0, 1.5, 1)]


def test_attempts_without_any_answer_are_one_request_of_unknown_outcome() -> None:
    (step,) = steps_of([attempt("a", 0), attempt("a", 1)])
    assert (step.sent, step.done, step.outcome) == (0, 1.5, Outcome.UNKNOWN)


def test_refused_attempts_leave_the_state_as_it_was() -> None:
    refused = Asked(KEY, 0, 1, Outcome.REFUSED, request="a")
    assert [each.outcome for each in steps_of([refused, refused])] == [Outcome.REFUSED]
    assert harms(refused, attempt("b", 2, step=2)) == {Harm.DOUBLED: 1}


def test_an_answer_that_comes_again_is_neither_lost_nor_doubled() -> None:
    assert harms(attempt("a", 0, 1), attempt("b", 1, 2), attempt("a", 2, 1)) == {}


def test_attempts_explain_one_step_however_many_there_are() -> None:
    attempts = [attempt("a", 0), attempt("a", 1), attempt("a", 2)]
    assert harms(*attempts, attempt("b", 3, step=2)) == {}
    assert harms(*attempts, attempt("b", 3, step=3)) == {Harm.DOUBLED: 1}


def test_a_request_that_is_stepped_a_second_time_is_doubled() -> None:
    assert harms(attempt("a", 0, 1), attempt("a", 1, 2)) == {Harm.DOUBLED: 1}


def test_a_repeated_answer_with_another_body_is_doubled() -> None:
    one, other = attempt("a", 0, 1, b"action 1"), attempt("a", 0.1, 1, b"action 2")
    assert harms(one, other)[Harm.DOUBLED] > 0


def test_a_request_whose_step_was_lost_is_made_anew() -> None:
    lost = [attempt("a", 0, 1), attempt("b", 1, 2), attempt("c", 2, 3)]
    assert harms(*lost, attempt("c", 3, 2), attempt("d", 4, 3)) == {Harm.LOST: 2}
