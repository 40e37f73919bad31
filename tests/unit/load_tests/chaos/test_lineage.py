"""The judge of histories: finds each harm that is there, and none that is not."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from deployments.stateful.protocol import Key
from load_tests.chaos.history import LINGER_S, Asked, History, Outcome, Reset
from load_tests.chaos.lineage import Harm, Verdict, judge

KEY = Key("run", "junction")
LATER = LINGER_S + 100.0


def answered(sent: float, done: float, step: int) -> Asked:
    return Asked(KEY, sent, done, Outcome.ANSWERED, step)


def unknown(sent: float, done: float) -> Asked:
    return Asked(KEY, sent, done, Outcome.UNKNOWN)


def refused(sent: float, done: float) -> Asked:
    return Asked(KEY, sent, done, Outcome.REFUSED)


def one_by_one(*steps: int, start: float = 0.0) -> list[Asked]:
    """Return answers that came after each other, one a second."""
    return [answered(start + n, start + n + 0.5, step) for n, step in enumerate(steps)]


def harms(asked: list[Asked], resets: list[Reset] | None = None, *faults: float) -> dict[Harm, int]:
    verdict = judge(History(asked, resets or []), faults)
    return {harm: verdict.steps(harm) for harm in Harm if verdict.steps(harm)}


def test_a_faultless_history_has_no_finding() -> None:
    assert judge(History(one_by_one(1, 2, 3, 4))).findings == ()


def test_each_answered_step_that_a_later_answer_does_not_continue_from_is_lost() -> None:
    assert harms([*one_by_one(1, 2, 3, 4), answered(9.0, 9.5, 3)]) == {Harm.LOST: 2}


def test_the_oldest_lost_answer_tells_how_far_before_the_fault_the_loss_reaches() -> None:
    verdict = judge(History([*one_by_one(1, 2, 3, 4), answered(9.0, 9.5, 3)]), [2.8, 9.9])
    assert verdict.lost_s == pytest.approx(0.7)  # from 2.8 to 3.5, and 0.3 to 2.5


def test_a_loss_without_a_fault_is_without_bound() -> None:
    assert judge(History(one_by_one(1, 1))).lost_s == float("inf")


def test_an_answer_that_came_after_the_later_one_was_sent_need_not_be_continued_from() -> None:
    assert harms([answered(0, 2, 2), answered(1, 3, 1)]) == {}


def test_steps_of_other_keys_are_not_compared() -> None:
    other = replace(answered(2, 3, 1), key=Key("run", "another"))
    assert harms([*one_by_one(1, 2), other]) == {}


def test_a_number_given_twice_at_once_is_doubled() -> None:
    assert harms([answered(0, 2, 1), answered(1, 3, 1)]) == {Harm.DOUBLED: 1}


def test_a_number_given_twice_around_a_fault_is_lost_once() -> None:
    asked = [answered(0, 2, 1), answered(1, 3, 1)]
    assert harms(asked, None, 2.001) == {Harm.LOST: 1}
    assert judge(History(asked), [2.001]).lost_s == pytest.approx(0.001)
    assert harms(asked, None, 7.0) == {Harm.DOUBLED: 1}


def test_of_two_answers_with_one_number_the_one_at_the_fault_counts_as_lost() -> None:
    by_another, late = answered(2.1, 4.3, 2), answered(2.0, 7.01, 2)  # after a pause from 2 to 7
    verdict = judge(History([answered(1.0, 1.5, 1), by_another, late]), [2.05, 7.0])
    assert verdict.steps(Harm.LOST) == 1
    assert verdict.lost_s == pytest.approx(0.01)


def test_a_step_that_nobody_asked_for_is_doubled() -> None:
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
    assert harms(asked, None, 5.5) == {Harm.LOST: 3, Harm.DOUBLED: 1}


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
    doubtful = Reset("run", 2.0, 3.0, confirmed=False)
    assert harms([*one_by_one(1, 2), answered(4, 5, 1)], [doubtful]) == {}
    assert harms([*one_by_one(1, 2), answered(4, 5, 3)], [doubtful]) == {}
    assert harms([*one_by_one(1, 2, 3, 4), answered(6, 7, 1)], [doubtful]) == {}
    late = one_by_one(3, 3, start=LATER)
    assert harms([*one_by_one(1, 2), *late], [doubtful]) == {Harm.LOST: 1}


def test_more_steps_than_requests_since_a_reset_are_revived() -> None:
    reset = Reset("run", 4.0, 5.0)
    assert harms([*one_by_one(1, 2, 3), answered(5, 6, 4)], [reset]) == {Harm.REVIVED: 3}
    # the harm is counted once, however many answers tell of it
    tail = one_by_one(4, 5, 6, 7, start=5)
    assert harms([*one_by_one(1, 2, 3), *tail], [reset]) == {Harm.REVIVED: 3}


def test_a_request_that_overlaps_a_reset_may_be_counted_after_it() -> None:
    reset = Reset("run", 4.0, 5.0)
    assert harms([*one_by_one(1, 2), answered(3.5, 4.5, 3), answered(5, 6, 2)], [reset]) == {}
    assert harms([*one_by_one(1, 2), unknown(2.5, 3.5), answered(5, 6, 2)], [reset]) == {}


@dataclass
class SerialStates:
    """A right service: each request and reset takes effect once, somewhere within its time."""

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
                self.history.asked.append(answered(sent, done, step))
            elif what == "unknown":
                step += self.chance.random() < 0.5
                self.history.asked.append(unknown(sent, done))
            else:
                self.history.asked.append(refused(sent, done))
        return self.history


@pytest.mark.parametrize("seed", range(100))
def test_no_finding_in_any_serial_history_however_its_requests_overlap(seed: int) -> None:
    history = SerialStates(random.Random(seed)).run(200)
    assert judge(history) == Verdict()


@pytest.mark.parametrize("seed", range(20))
def test_a_fall_back_by_more_than_what_overlaps_is_found(seed: int) -> None:
    history = SerialStates(random.Random(seed)).run(200)
    in_order = sorted(history.asked, key=lambda each: each.done)
    asked = [answered(each.sent, each.done, step) for step, each in enumerate(in_order, 1)]
    assert harms(asked) == {}
    fallen = [replace(each, step=each.step - 40 * (each.step > 100)) for each in asked]
    assert harms(fallen)[Harm.LOST] > 0
