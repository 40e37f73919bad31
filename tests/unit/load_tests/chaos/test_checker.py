"""The checker of histories finds each harm that is there, and none that is not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from load_tests.chaos.checker import Finding, Harm, Verdict, check, once_each
from load_tests.chaos.history import LINGER_S, History, Key, Outcome, Prediction, Reset

KEY = Key("run", "junction")
LATER = LINGER_S + 100.0


def answered(sent: float, done: float, step: int) -> Prediction:
    return Prediction(KEY, sent, done, Outcome.ANSWERED, step)


def unknown(sent: float, done: float) -> Prediction:
    return Prediction(KEY, sent, done, Outcome.UNKNOWN)


def refused(sent: float, done: float) -> Prediction:
    return Prediction(KEY, sent, done, Outcome.REFUSED)


def one_by_one(*steps: int, start: float = 0.0) -> list[Prediction]:
    """Return answers that came after each other, one a second."""
    return [answered(start + n, start + n + 0.5, step) for n, step in enumerate(steps)]


def harms(asked: list[Prediction], resets: list[Reset] | None = None) -> dict[Harm, int]:
    verdict = check(History(asked, resets or []))
    return {harm: verdict.steps(harm) for harm in Harm if verdict.steps(harm)}


def test_each_answered_step_that_a_later_answer_does_not_continue_from_is_lost() -> None:
    assert harms([*one_by_one(1, 2, 3, 4), answered(9.0, 9.5, 3)]) == {Harm.LOST: 2}


def test_steps_of_other_keys_are_not_compared() -> None:
    other = replace(answered(2, 3, 1), key=Key("run", "another"))
    assert harms([*one_by_one(1, 2), other]) == {}


def test_of_two_answers_with_one_number_the_first_is_lost() -> None:
    first, second = answered(0, 2, 1), answered(1, 3, 1)
    assert check(History([second, first])).findings == (Finding(Harm.LOST, first, second),)


def test_a_step_without_a_request_is_doubled() -> None:
    assert harms(one_by_one(1, 2, 4, 5)) == {Harm.DOUBLED: 1}
    assert harms(one_by_one(1, 2, 4, 5, 8)) == {Harm.DOUBLED: 3}


def test_a_refused_request_explains_no_step() -> None:
    assert harms([*one_by_one(1), refused(1, 2), answered(2, 3, 3)]) == {Harm.DOUBLED: 1}


def test_a_request_of_unknown_outcome_explains_one_step_or_none() -> None:
    before, gap = one_by_one(1, 2), unknown(2.0, 3.0)
    assert harms([*before, gap, answered(4, 5, 3)]) == {}
    assert harms([*before, gap, answered(4, 5, 4)]) == {}
    assert harms([*before, gap, answered(4, 5, 5)]) == {Harm.DOUBLED: 1}


def test_a_request_of_unknown_outcome_may_take_effect_late_but_not_for_ever() -> None:
    asked = [unknown(0.0, 1.0), answered(2, 3, 1)]
    assert harms([*asked, answered(4, 5, 3)]) == {}
    late = [answered(LATER, LATER + 1, 2), answered(LATER + 1, LATER + 2, 4)]
    assert harms([*asked, *late]) == {Harm.DOUBLED: 1}


def test_steps_after_a_loss_are_counted_from_where_it_fell_back_to() -> None:
    asked = [*one_by_one(1, 2, 3, 4, 5), *one_by_one(3, 5, start=6)]
    assert harms(asked) == {Harm.LOST: 3, Harm.DOUBLED: 1}


def test_a_reset_excuses_what_it_cleared() -> None:
    assert harms([*one_by_one(1, 2, 3), answered(5, 6, 1)], [Reset("run", 4, 5)]) == {}
    assert harms([*one_by_one(1, 2, 3), answered(5, 6, 1)], [Reset("other", 4, 5)]) == {
        Harm.LOST: 3
    }


def test_a_reset_that_races_with_requests_may_come_before_or_after_each() -> None:
    race = Reset("run", 2.0, 9.0)
    for step in (1, 2, 3):
        assert harms([*one_by_one(1, 2), answered(3, 4, step)], [race]) == {}
    assert harms([*one_by_one(1, 2), answered(3, 4, 4)], [race]) == {Harm.DOUBLED: 1}
    assert harms([*one_by_one(1, 2), answered(3, 4, 1), answered(3, 4, 2)], [race]) == {}


def test_a_reset_of_unknown_outcome_may_have_happened_or_not() -> None:
    doubtful = Reset("run", 2.0, 3.0, Outcome.UNKNOWN)
    assert harms([*one_by_one(1, 2), answered(4, 5, 1)], [doubtful]) == {}
    assert harms([*one_by_one(1, 2), answered(4, 5, 3)], [doubtful]) == {}
    assert harms([*one_by_one(1, 2, 3, 4), answered(6, 7, 1)], [doubtful]) == {}
    late = one_by_one(3, 3, start=LATER)
    assert harms([*one_by_one(1, 2), *late], [doubtful]) == {Harm.LOST: 1}


def test_a_refused_reset_has_cleared_nothing() -> None:
    refused = Reset("run", 2.0, 3.0, Outcome.REFUSED)
    assert harms([*one_by_one(1, 2), answered(4, 5, 1)], [refused]) == {Harm.LOST: 2}


def test_attempts_at_one_reset_clear_once_before_its_first_answer() -> None:
    def attempts(*done: tuple[float, Outcome]) -> list[Reset]:
        return [Reset("run", at - 0.5, at, outcome, "a") for at, outcome in done]

    late = attempts((2.0, Outcome.ANSWERED), (4.0, Outcome.ANSWERED))
    before, after = one_by_one(1), answered(5, 6, 1)
    assert harms([*before, answered(2, 3, 1), answered(5, 6, 2)], late) == {}
    assert harms([*before, answered(2, 3, 1), after], late) == {Harm.LOST: 1}
    doubtful = attempts((2.0, Outcome.UNKNOWN), (4.0, Outcome.ANSWERED))
    for step in (1, 2):
        assert harms([*before, answered(2, 3, step), after], doubtful) == {}
    unanswered = attempts((2.0, Outcome.UNKNOWN), (4.0, Outcome.REFUSED))
    assert harms([*before, answered(2, 3, 2), after], unanswered) == {}


def test_more_steps_than_requests_since_a_reset_are_revived() -> None:
    reset = Reset("run", 4.0, 5.0)
    assert harms([*one_by_one(1, 2, 3), answered(5, 6, 4)], [reset]) == {Harm.REVIVED: 3}
    # the harm is counted once, however many answers tell of it
    tail = one_by_one(4, 5, 6, 7, start=5)
    assert harms([*one_by_one(1, 2, 3), *tail], [reset]) == {Harm.REVIVED: 3}


@dataclass
class SerialStates:
    """A correct service: each request and reset takes effect once, somewhere within its time."""

    chance: random.Random
    history: History = field(default_factory=History)

    def run(self, n_requests: int) -> History:
        effects = []
        for number in range(n_requests):
            sent = self.chance.uniform(0, n_requests / 8)
            done = sent + self.chance.expovariate(2)
            (what,) = self.chance.choices(
                ["answered", "unknown", "refused", "reset"], [20, 2, 2, 1]
            )
            late = LINGER_S * 0.9 if what == "unknown" else 0.0
            effects.append((self.chance.uniform(sent, done + late), number, sent, done, what))
        step = 0
        for _, _, sent, done, what in sorted(effects):
            if what == "reset":
                step = 0
                self.history.resets.append(Reset("run", sent, done))
            elif what == "answered":
                step += 1
                self.history.predictions.append(answered(sent, done, step))
            elif what == "unknown":
                step += self.chance.random() < 0.5
                self.history.predictions.append(unknown(sent, done))
            else:
                self.history.predictions.append(refused(sent, done))
        return self.history


@pytest.mark.parametrize("seed", range(100))
def test_no_finding_in_any_serial_history_however_its_requests_overlap(seed: int) -> None:
    history = SerialStates(random.Random(seed)).run(200)
    assert check(history) == Verdict()


@pytest.mark.parametrize("seed", range(20))
def test_a_fall_back_by_more_than_what_overlaps_is_found(seed: int) -> None:
    history = SerialStates(random.Random(seed)).run(200)
    in_order = sorted(history.predictions, key=lambda each: each.done)
    asked = [answered(each.sent, each.done, step) for step, each in enumerate(in_order, 1)]
    assert harms(asked) == {}
    fallen = [replace(each, step=each.step - 40 * (each.step > 100)) for each in asked]
    assert harms(fallen)[Harm.LOST] > 0


# Attempts with one idempotency key are one step, and a second step for one key is found.


def attempt(
    request: str | None,
    sent: float,
    step: int = 0,
    body: bytes = b"",
) -> Prediction:
    """Return an attempt of half a second; without a step, it is not known what became of it."""
    outcome = Outcome.ANSWERED if step else Outcome.UNKNOWN
    return Prediction(KEY, sent, sent + 0.5, outcome, step, request, body)


def harms_of(*asked: Prediction) -> dict[Harm, int]:
    return harms(list(asked))


def test_attempts_at_one_request_are_one_step_made_by_the_first_answer() -> None:
    attempts = [attempt("a", 0), attempt("a", 1, step=1), attempt("a", 2, step=1)]
    assert [(each.sent, each.done, each.step) for each in once_each(attempts)] == [(0, 1.5, 1)]


def test_attempts_without_any_answer_are_one_request_of_unknown_outcome() -> None:
    (step,) = once_each([attempt("a", 0), attempt("a", 1)])
    assert (step.sent, step.done, step.outcome) == (0, 1.5, Outcome.UNKNOWN)


def test_refused_attempts_leave_the_state_as_it_was() -> None:
    refused = Prediction(KEY, 0, 1, Outcome.REFUSED, request="a")
    assert [each.outcome for each in once_each([refused, refused])] == [Outcome.REFUSED]
    assert harms_of(refused, attempt("b", 2, step=2)) == {Harm.DOUBLED: 1}


def test_an_answer_that_comes_again_is_neither_lost_nor_doubled() -> None:
    assert harms_of(attempt("a", 0, 1), attempt("b", 1, 2), attempt("a", 2, 1)) == {}


def test_attempts_explain_one_step_however_many_there_are() -> None:
    attempts = [attempt("a", 0), attempt("a", 1), attempt("a", 2)]
    assert harms_of(*attempts, attempt("b", 3, step=2)) == {}
    assert harms_of(*attempts, attempt("b", 3, step=3)) == {Harm.DOUBLED: 1}


def test_a_request_that_is_stepped_a_second_time_is_doubled() -> None:
    assert harms_of(attempt("a", 0, 1), attempt("a", 1, 2)) == {Harm.DOUBLED: 1}


def test_a_repeated_answer_with_another_body_is_doubled() -> None:
    one, other = attempt("a", 0, 1, b"action 1"), attempt("a", 0.1, 1, b"action 2")
    assert harms_of(one, other)[Harm.DOUBLED] > 0


def test_an_empty_history_is_refused() -> None:
    for history in (History(), History([unknown(0, 1)])):
        with pytest.raises(ValueError, match="proves nothing"):
            check(history)


# With a reference, actions and confidences must follow from states that may have been there.


def reference(junction: str, observation: Sequence[float], state: float | None) -> Stepped:
    """Return a made-up policy's action, confidence and next state."""
    new = 0.5 * (state or 0.0) + 0.3 * sum(observation)
    return int(new > 0.5), new % 1.0, new


Stepped = tuple[int, float, float]


def seen(*observations: float, start: float = 0.0, after: Sequence[float] = ()) -> list[Prediction]:
    """Return right answers to observations, one a second, after others that were made before."""
    state, asked = None, []
    for number, each in enumerate([*after, *observations]):
        action, confidence, state = reference("junction", [each], state)
        at = start + number
        answer = replace(answered(at, at + 0.5, number + 1), observation=(each,))
        asked.append(replace(answer, action=action, confidence=confidence))
    return asked[len(after) :]


def wrong_steps(*asked: Prediction) -> list[int]:
    findings = check(History(list(asked)), reference).findings
    return sorted(each.answer.step for each in findings if each.harm is Harm.WRONG)


def missed(observation: float, sent: float) -> Prediction:
    return replace(unknown(sent, sent + 0.5), observation=(observation,))


@pytest.mark.parametrize("change", [{"confidence": 0.123}, {"action": 7}])
def test_an_answer_that_follows_from_no_state_is_wrong(change: dict[str, float]) -> None:
    first, second, third = seen(0.1, 0.9, 0.4)
    altered = replace(second, **change)  # type: ignore[arg-type]
    assert check(History([first, altered, third]), reference).findings[:1] == (
        Finding(Harm.WRONG, altered),
    )


def test_a_step_of_the_state_that_another_observation_leaves_is_wrong() -> None:
    first, second, third = seen(0.1, 0.9, 0.4)
    (stale,) = seen(0.4, start=2.0, after=[0.1, 0.2])
    assert wrong_steps(first, second, third) == []
    assert wrong_steps(first, second, replace(stale, sent=2.0, done=2.5, step=3)) == [3]


def test_a_missing_step_must_be_that_of_a_request_without_an_answer() -> None:
    first, _, third, fourth = seen(0.1, 0.9, 0.4, 0.6)
    others = missed(0.2, 1.0), missed(0.8, 1.1)
    assert wrong_steps(first, *others, missed(0.9, 1.2), third, fourth) == []
    assert wrong_steps(first, *others, third, fourth) == [3, 4]
    assert wrong_steps(first, third, fourth) == [3, 4]
    refused_request = replace(missed(0.9, 1.2), outcome=Outcome.REFUSED)
    assert wrong_steps(first, refused_request, third, fourth) == [3, 4]


def test_two_missing_steps_in_a_row_are_followed() -> None:
    first, _, _, fourth = seen(0.1, 0.9, 0.4, 0.6)
    assert wrong_steps(first, missed(0.4, 1), missed(0.9, 1.1), fourth) == []
    assert wrong_steps(first, missed(0.5, 1), missed(0.9, 1.1), fourth) == [4]


def test_attempts_with_one_key_do_not_multiply_the_states() -> None:
    asked = [replace(each, request=f"{each.step}") for each in seen(*[0.1, 0.9] * 20)]
    assert wrong_steps(*asked, *asked, *asked) == []
