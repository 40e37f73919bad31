"""Which HAProxy is started, and the levels of its lines."""

import logging
import sys

from serve_app.processes import haproxy
from serve_app.processes.haproxy import STARTING_S, LogLevels


def test_a_haproxy_of_the_users_own_is_started(monkeypatch):
    monkeypatch.setenv("RAY_SERVE_HAPROXY_BINARY_PATH", sys.executable)
    assert haproxy.front_environment()["GREENWAVE_HAPROXY"] == sys.executable


def test_in_a_shell_with_the_variables_of_a_node_the_script_does_not_start_itself(monkeypatch):
    program = haproxy.binary()
    for name, value in haproxy.front_environment().items():
        monkeypatch.setenv(name, value)
    assert haproxy.binary() == haproxy.front_environment()["GREENWAVE_HAPROXY"] == program
    monkeypatch.delenv("GREENWAVE_HAPROXY")
    assert haproxy.binary() == program


FRONT = "[WARNING]  (866) : Server inference/front is {}, reason: Layer4 connection problem"
BACKUP = "[WARNING]  (866) : Backup Server inference/held is {}, reason: Layer7 timeout"
EMPTY = "[ALERT]    (866) : backend 'inference' has no server available!"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_servers_that_are_down_when_the_edge_starts_cause_no_warning():
    clock = Clock()
    levels = LogLevels(clock)
    levels_seen = [levels.of(each) for each in (FRONT.format("DOWN"), BACKUP.format("DOWN"), EMPTY)]
    clock.now += 10 * STARTING_S
    levels_seen += [levels.of(each.format("UP")) for each in (FRONT, BACKUP)]
    assert set(levels_seen) == {logging.INFO}


def test_servers_that_go_down_later_cause_warnings():
    clock = Clock()
    levels = LogLevels(clock)
    levels.of(FRONT.format("DOWN"))
    clock.now += STARTING_S
    levels.of(FRONT.format("UP"))
    levels_seen = [levels.of(each) for each in (FRONT.format("DOWN"), EMPTY, FRONT.format("UP"))]
    assert set(levels_seen) == {logging.WARNING}


def test_replicas_that_are_added_or_removed_cause_no_warning():
    levels = LogLevels()
    changes = ("UP/READY (leaving forced maintenance).", "going DOWN for maintenance.")
    lines = [f"[WARNING]  (866) : Server inference-replicas/a is {change}" for change in changes]
    assert {levels.of(line) for line in lines} == {logging.INFO}


def test_any_other_line_is_a_warning_from_the_start():
    assert LogLevels().of("[ALERT]    (866) : Cannot bind socket") == logging.WARNING
