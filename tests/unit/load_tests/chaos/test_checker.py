"""The checker of histories finds each harm that is there, and none that is not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

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


LOST, DOUBLED, REVIVED = Harm.LOST, Harm.DOUBLED, Harm.REVIVED
GAP = unknown(2.0, 3.0)
LATE = [unknown(0.0, 1.0), answered(2, 3, 1)]
FALLEN = [*one_by_one(1, 2, 3, 4, 5), *one_by_one(3, 5, start=6)]
OTHER_KEY = replace(answered(2, 3, 1), key=Key("run", "another"))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param([*one_by_one(1, 2, 3, 4), answered(9.0, 9.5, 3)], {LOST: 2}, id="fallen"),
        pytest.param([*one_by_one(1, 2), OTHER_KEY], {}, id="another key"),
        pytest.param([answered(1, 3, 1), answered(0, 2, 1)], {LOST: 1}, id="one number twice"),
        pytest.param(one_by_one(1, 2, 4, 5), {DOUBLED: 1}, id="without a request"),
        pytest.param(one_by_one(1, 2, 4, 5, 8), {DOUBLED: 3}, id="several without a request"),
        pytest.param(
            [*one_by_one(1), refused(1, 2), answered(2, 3, 3)], {DOUBLED: 1}, id="refused"
        ),
        pytest.param([*one_by_one(1, 2), GAP, answered(4, 5, 3)], {}, id="unknown, not made"),
        pytest.param([*one_by_one(1, 2), GAP, answered(4, 5, 4)], {}, id="unknown, made"),
        pytest.param([*one_by_one(1, 2), GAP, answered(4, 5, 5)], {DOUBLED: 1}, id="made twice"),
        pytest.param([*LATE, answered(4, 5, 3)], {}, id="late"),
        pytest.param(
            [*LATE, answered(LATER, LATER + 1, 2), answered(LATER + 1, LATER + 2, 4)],
            {DOUBLED: 1},
            id="too late",
        ),
        pytest.param(FALLEN, {LOST: 3, DOUBLED: 1}, id="counted from where it fell back to"),
    ],
)
def test_a_step_is_lost_or_doubled_unless_the_requests_explain_it(
    asked: list[Prediction], found: dict[Harm, int]
) -> None:
    assert harms(asked) == found


def reset(sent: float, done: float, outcome: Outcome = Outcome.ANSWERED) -> Reset:
    return Reset("run", sent, done, outcome)


def attempts(*done: tuple[float, Outcome]) -> list[Reset]:
    """Return attempts at one reset."""
    return [Reset("run", at - 0.5, at, outcome, "a") for at, outcome in done]


RACE, DOUBTFUL = [reset(2.0, 9.0)], [reset(2.0, 3.0, Outcome.UNKNOWN)]
TWICE = attempts((2.0, Outcome.ANSWERED), (4.0, Outcome.ANSWERED))
ONCE_DOUBTFUL = attempts((2.0, Outcome.UNKNOWN), (4.0, Outcome.ANSWERED))
UNANSWERED = attempts((2.0, Outcome.UNKNOWN), (4.0, Outcome.REFUSED))
TWO, THREE = one_by_one(1, 2), one_by_one(1, 2, 3)


@pytest.mark.parametrize(
    ("asked", "resets", "found"),
    [
        ([*THREE, answered(5, 6, 1)], [reset(4, 5)], {}),
        ([*THREE, answered(5, 6, 1)], [Reset("other", 4, 5)], {LOST: 3}),
        *(([*TWO, answered(3, 4, step)], RACE, {}) for step in (1, 2, 3)),
        ([*TWO, answered(3, 4, 4)], RACE, {DOUBLED: 1}),
        ([*TWO, answered(3, 4, 1), answered(3, 4, 2)], RACE, {}),
        ([*TWO, answered(4, 5, 1)], DOUBTFUL, {}),
        ([*TWO, answered(4, 5, 3)], DOUBTFUL, {}),
        ([*one_by_one(1, 2, 3, 4), answered(6, 7, 1)], DOUBTFUL, {}),
        ([*TWO, *one_by_one(3, 3, start=LATER)], DOUBTFUL, {LOST: 1}),
        ([*TWO, answered(4, 5, 1)], [reset(2.0, 3.0, Outcome.REFUSED)], {LOST: 2}),
        ([*one_by_one(1), answered(2, 3, 1), answered(5, 6, 2)], TWICE, {}),
        ([*one_by_one(1), answered(2, 3, 1), answered(5, 6, 1)], TWICE, {LOST: 1}),
        *(
            ([*one_by_one(1), answered(2, 3, step), answered(5, 6, 1)], ONCE_DOUBTFUL, {})
            for step in (1, 2)
        ),
        ([*one_by_one(1), answered(2, 3, 2), answered(5, 6, 1)], UNANSWERED, {}),
        ([*THREE, answered(5, 6, 4)], [reset(4, 5)], {REVIVED: 3}),
        # the harm is counted once, however many answers show it
        ([*THREE, *one_by_one(4, 5, 6, 7, start=5)], [reset(4, 5)], {REVIVED: 3}),
    ],
)
def test_a_reset_excuses_what_it_may_have_cleared_and_allows_no_more_steps(
    asked: list[Prediction], resets: list[Reset], found: dict[Harm, int]
) -> None:
    assert harms(asked, resets) == found


N_REQUESTS = 200


def serial_history(seed: int) -> History:
    """Let a correct service do each request and reset once, somewhere within its time."""
    chance, history, effects = random.Random(seed), History(), []
    for number in range(N_REQUESTS):
        sent = chance.uniform(0, N_REQUESTS / 8)
        done = sent + chance.expovariate(2)
        (what,) = chance.choices(["answered", "unknown", "refused", "reset"], [20, 2, 2, 1])
        late = LINGER_S * 0.9 if what == "unknown" else 0.0
        effects.append((chance.uniform(sent, done + late), number, sent, done, what))
    step = 0
    for _, _, sent, done, what in sorted(effects):
        if what == "reset":
            step = 0
            history.resets.append(Reset("run", sent, done))
        elif what == "answered":
            step += 1
            history.predictions.append(answered(sent, done, step))
        elif what == "unknown":
            step += chance.random() < 0.5
            history.predictions.append(unknown(sent, done))
        else:
            history.predictions.append(refused(sent, done))
    return history


@pytest.mark.parametrize("seed", range(100))
def test_no_finding_in_any_serial_history_however_its_requests_overlap(seed: int) -> None:
    assert check(serial_history(seed)) == Verdict()


@pytest.mark.parametrize("seed", range(20))
def test_a_fall_back_by_more_than_what_overlaps_is_found(seed: int) -> None:
    in_order = sorted(serial_history(seed).predictions, key=lambda each: each.done)
    asked = [answered(each.sent, each.done, step) for step, each in enumerate(in_order, 1)]
    assert harms(asked) == {}
    fallen = [replace(each, step=each.step - 40 * (each.step > 100)) for each in asked]
    assert harms(fallen)[Harm.LOST] > 0


# Attempts with one idempotency key are one step, and a second step for one key is found.


def attempt(request: str, sent: float, step: int = 0, body: bytes = b"") -> Prediction:
    """Return an attempt of half a second; without a step, it is not known what became of it."""
    outcome = Outcome.ANSWERED if step else Outcome.UNKNOWN
    return Prediction(KEY, sent, sent + 0.5, outcome, step, request, body)


def test_attempts_at_one_request_are_one_step_made_by_the_first_answer() -> None:
    attempts = [attempt("a", 0), attempt("a", 1, step=1), attempt("a", 2, step=1)]
    assert [(each.sent, each.done, each.step) for each in once_each(attempts)] == [(0, 1.5, 1)]
    (step,) = once_each(attempts[:1] * 2)
    assert (step.sent, step.done, step.outcome) == (0, 0.5, Outcome.UNKNOWN)


ATTEMPTS = [attempt("a", 0), attempt("a", 1), attempt("a", 2)]
REFUSALS = [Prediction(KEY, 0, 1, Outcome.REFUSED, request="a")] * 2
OTHER_BODY = attempt("a", 0, 1, b"action 1"), attempt("a", 0.1, 1, b"action 2")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([*REFUSALS, attempt("b", 2, step=2)], {DOUBLED: 1}),
        ([attempt("a", 0, 1), attempt("b", 1, 2), attempt("a", 2, 1)], {}),
        ([*ATTEMPTS, attempt("b", 3, step=2)], {}),
        ([*ATTEMPTS, attempt("b", 3, step=3)], {DOUBLED: 1}),
        ([attempt("a", 0, 1), attempt("a", 1, 2)], {DOUBLED: 1}),
        (OTHER_BODY, {DOUBLED: 1}),
    ],
)
def test_attempts_explain_one_step_and_get_one_answer(
    asked: list[Prediction], found: dict[Harm, int]
) -> None:
    assert harms(list(asked)) == found


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
