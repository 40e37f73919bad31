import numpy as np

from deployments.inference.protocol import Key, Version
from deployments.inference.replica.recent import KEEP_S, MAX_RESETS, RecentPast

HIDDEN = np.zeros(128, np.float32)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_copies_are_kept_for_a_while():
    clock = Clock()
    recent = RecentPast(clock)
    recent.note_given_back(Key("a", "1"), Version(1, 1), HIDDEN)
    clock.now = KEEP_S - 1
    recent.note_given_back(Key("b", "1"), Version(2, 1), HIDDEN)
    assert {key for key, _, _ in recent.given_back()} == {Key("a", "1"), Key("b", "1")}
    clock.now = KEEP_S + 1
    assert {key for key, _, _ in recent.given_back()} == {Key("b", "1")}


def test_the_newest_copy_of_a_state_counts_and_its_time():
    clock = Clock()
    recent = RecentPast(clock)
    recent.note_given_back(Key("a", "1"), Version(1, 1), HIDDEN)
    clock.now = KEEP_S - 1
    recent.note_given_back(Key("a", "1"), Version(3, 5), HIDDEN)
    clock.now = KEEP_S + 1
    assert [version for _, version, _ in recent.given_back()] == [Version(3, 5)]


def test_only_so_many_resets_are_kept_the_newest_of_them():
    recent = RecentPast(Clock())
    for n in range(MAX_RESETS + 5):
        recent.note_reset(f"run-{n}", n)
    recent.note_reset("run-7", 99_999)
    assert len(recent.resets) == MAX_RESETS
    assert "run-4" not in recent.resets
    assert recent.resets["run-7"] == 99_999
