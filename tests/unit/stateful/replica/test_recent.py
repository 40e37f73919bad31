import numpy as np

from deployments.stateful.protocol import Key, Version
from deployments.stateful.replica.claims import KEEP_RELEASED_S, RecentlyReleased
from deployments.stateful.replica.held_states import HeldCopy

HIDDEN = np.zeros(128, np.float32)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def copy(run: str, version: Version) -> HeldCopy:
    return HeldCopy(Key(run, "1"), version, HIDDEN, ())


def test_copies_are_kept_for_a_while():
    clock = Clock()
    recent = RecentlyReleased(clock)
    recent.note(copy("a", Version(1, 1)))
    clock.now = KEEP_RELEASED_S - 1
    recent.note(copy("b", Version(2, 1)))
    assert {each.key.run for each in recent.copies()} == {"a", "b"}
    clock.now = KEEP_RELEASED_S + 1
    assert {each.key.run for each in recent.copies()} == {"b"}


def test_the_newest_copy_of_a_state_counts_and_its_time():
    clock = Clock()
    recent = RecentlyReleased(clock)
    recent.note(copy("a", Version(1, 1)))
    clock.now = KEEP_RELEASED_S - 1
    recent.note(copy("a", Version(3, 5)))
    clock.now = KEEP_RELEASED_S + 1
    assert [each.version for each in recent.copies()] == [Version(3, 5)]
