"""A keeper starts its charge again, at once after a long life, and ever later in a crash loop."""

from __future__ import annotations

import pytest

from serve_app.processes.journal import Entry, Journal
from serve_app.processes.supervision.restarts import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    CannotRunError,
    Stopped,
    keep,
)


class FakeCharge:
    """Lives as long as it is told; the keeper is stopped after the last life."""

    def __init__(self, lives: list[float | str]) -> None:
        self.lives = lives
        self.now = 0.0
        self.stopped = False
        self.pauses: list[float] = []

    def begin(self) -> float:
        if not self.lives:
            raise Stopped
        if isinstance(self.lives[0], str):
            raise CannotRunError(str(self.lives.pop(0)))
        return 1000.0 + self.now

    def wait(self) -> str:
        self.now += float(self.lives.pop(0))
        return "It has died.\nIts log ends with:"

    def stop(self) -> None:
        self.stopped = True

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "node.json")


def run(charge: FakeCharge, journal: Journal) -> None:
    with pytest.raises(Stopped):
        keep(charge, journal, sleep=charge.sleep, clock=lambda: charge.now)


def test_after_a_long_life_it_starts_again_at_once(journal):
    charge = FakeCharge([3600, 3600])
    run(charge, journal)
    assert charge.pauses == [0, 0]


def test_a_crash_loop_is_slowed_down_and_never_given_up(journal):
    charge = FakeCharge([0.0] * 20)
    run(charge, journal)
    assert charge.pauses[0] == FIRST_PAUSE_S
    assert charge.pauses == sorted(charge.pauses)
    assert charge.pauses[-1] == LONGEST_PAUSE_S
    assert len(charge.pauses) == 20


def test_a_long_life_ends_a_crash_loop(journal):
    charge = FakeCharge([0.0, 0.0, 3600, 0.0])
    run(charge, journal)
    assert charge.pauses[2:] == [0, FIRST_PAUSE_S]


def test_a_keeper_that_is_told_to_end_stops_its_charge(journal):
    charge = FakeCharge([])
    run(charge, journal)
    assert charge.stopped


def test_the_journal_counts_lives_that_ended_and_says_why_in_one_line(journal):
    run(FakeCharge([5, "Port 8000 is taken.", "Port 8000 is taken.", 5]), journal)
    assert journal.read() == Entry(since=None, restarts=2, trouble="It has died.")


def test_the_journal_tells_the_trouble_while_it_lasts(journal):
    run(FakeCharge(["Port 8000 is taken."]), journal)
    assert journal.read() == Entry(since=None, restarts=0, trouble="Port 8000 is taken.")


def test_a_charge_taken_over_is_noted_since_its_own_start(journal):
    journal.note_started(since=17.0)
    assert journal.read().since == 17.0


def test_a_journal_that_cannot_be_written_stops_nobody(tmp_path):
    journal = Journal(tmp_path / "missing" / "node.json")
    journal.note_started()
    assert journal.read() == Entry()
