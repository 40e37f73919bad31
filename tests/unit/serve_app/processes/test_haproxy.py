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


def test_only_what_is_not_expected_is_a_warning():
    clock = Clock()
    levels = LogLevels(clock)
    changes = ("UP/READY (leaving forced maintenance).", "going DOWN for maintenance.")
    replicas = [f"[WARNING]  (866) : Server inference-replicas/a is {each}" for each in changes]
    at_start = [FRONT.format("DOWN"), BACKUP.format("DOWN"), EMPTY, *replicas]
    assert {levels.of(line) for line in at_start} == {logging.INFO}
    assert levels.of("[ALERT]    (866) : Cannot bind socket") == logging.WARNING
    clock.now += 10 * STARTING_S
    assert {levels.of(line.format("UP")) for line in (FRONT, BACKUP)} == {logging.INFO}
    later = [FRONT.format("DOWN"), EMPTY, FRONT.format("UP")]
    assert {levels.of(line) for line in later} == {logging.WARNING}
