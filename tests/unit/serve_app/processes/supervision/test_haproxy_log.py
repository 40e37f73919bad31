"""Which of HAProxy's lines are warnings: those that an operator can act upon."""

from __future__ import annotations

import logging

from serve_app.processes.supervision.haproxy_log import STARTING_S, Levels

FRONT = "[WARNING]  (866) : Server inference/front is {}, reason: Layer4 connection problem"
BACKUP = "[WARNING]  (866) : Backup Server inference/held is {}, reason: Layer7 timeout"
EMPTY = "[ALERT]    (866) : backend 'inference' has no server available!"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_what_is_not_there_yet_when_the_edge_starts_is_no_warning_nor_that_it_comes() -> None:
    clock = Clock()
    levels = Levels(clock)
    said = [levels.of(each) for each in (FRONT.format("DOWN"), BACKUP.format("DOWN"), EMPTY)]
    clock.now += 10 * STARTING_S
    said += [levels.of(each.format("UP")) for each in (FRONT, BACKUP)]
    assert set(said) == {logging.INFO}


def test_what_goes_later_is_a_warning_and_so_is_its_return() -> None:
    clock = Clock()
    levels = Levels(clock)
    levels.of(FRONT.format("DOWN"))
    clock.now += STARTING_S
    levels.of(FRONT.format("UP"))
    said = [levels.of(each) for each in (FRONT.format("DOWN"), EMPTY, FRONT.format("UP"))]
    assert set(said) == {logging.WARNING}


def test_any_other_complaint_is_a_warning_from_the_first_moment() -> None:
    assert Levels().of("[ALERT]    (866) : Cannot bind socket") == logging.WARNING
