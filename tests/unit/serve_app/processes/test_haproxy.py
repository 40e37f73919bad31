"""Which HAProxy is started, and the levels of its lines."""

import logging
import sys

from serve_app.processes import haproxy
from serve_app.processes.haproxy import level_of


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


def test_only_what_is_not_expected_is_a_warning():
    changes = ("UP/READY (leaving forced maintenance).", "going DOWN for maintenance.")
    replicas = [f"[WARNING]  (866) : Server inference-replicas/a is {each}" for each in changes]
    always = [FRONT.format("UP"), BACKUP.format("UP"), *replicas]
    at_start = [FRONT.format("DOWN"), BACKUP.format("DOWN"), EMPTY]
    never = "[ALERT]    (866) : Cannot bind socket"
    assert {level_of(line, starting=True) for line in always + at_start} == {logging.INFO}
    assert {level_of(line, starting=False) for line in always} == {logging.INFO}
    assert {level_of(line, starting=False) for line in at_start} == {logging.WARNING}
    assert level_of(never, starting=True) == logging.WARNING
