"""Serve's front is bound to loopback, and HAProxy's lines get the levels that they deserve."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

from ray.serve._private.haproxy_templates import HAPROXY_CONFIG_TEMPLATE

from serve_app.processes import haproxy
from serve_app.processes.haproxy import STARTING_S, LogLevels

PORTS = {"RAY_SERVE_HAPROXY_METRICS_PORT": "9101", "RAY_SERVE_HAPROXY_STATS_PORT": "8404"}


def binds_of(tmp_path: Path, config: str) -> list[str]:
    """Return the binds of a config as HAProxy reads it."""
    path = tmp_path / "haproxy.cfg"
    path.write_text(config)
    program = tmp_path / "haproxy"
    program.write_text('#!/bin/sh\necho "$@"; cat "$3"\n')
    program.chmod(0o700)
    environment = PORTS | {"GREENWAVE_HAPROXY": str(program), "PATH": "/usr/bin:/bin"}
    script = haproxy.front_environment()["RAY_SERVE_HAPROXY_BINARY_PATH"]
    command = [script, "-db", "-f", str(path), "-sf", "1234"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, *lines = run.stdout.splitlines()
    assert first == " ".join(command[1:])
    return [line.strip() for line in lines if line.strip().startswith("bind")]


def test_metrics_and_statistics_listen_on_the_loopback(tmp_path):
    text = (
        "frontend p\n    bind :9101\nfrontend h\n    bind 127.0.0.1:8100\nlisten s\n  bind *:8404\n"
    )
    expected = ["bind 127.0.0.1:9101", "bind 127.0.0.1:8100", "bind 127.0.0.1:8404"]
    assert binds_of(tmp_path, text) == expected
    assert binds_of(tmp_path, (tmp_path / "haproxy.cfg").read_text()) == expected


def test_no_other_address_is_touched(tmp_path):
    text = "frontend h\n    bind *:8000\n    bind :91010\n    bind 10.0.0.1:9101\n"
    assert binds_of(tmp_path, text) == [
        "bind *:8000",
        "bind :91010",
        "bind 10.0.0.1:9101",
    ]


def test_serve_writes_them_as_expected(tmp_path):
    """Serve's own template, which another Ray may have changed."""
    text = HAPROXY_CONFIG_TEMPLATE
    for name, value in {"metrics_port": "9101", "stats_port": "8404"}.items():
        text = text.replace(f"{{{{ config.{name} }}}}", value)
    binds = binds_of(tmp_path, text)
    assert {"bind 127.0.0.1:9101", "bind 127.0.0.1:8404"} <= set(binds)


def test_a_haproxy_of_the_users_own_is_started(monkeypatch):
    monkeypatch.setenv("RAY_SERVE_HAPROXY_BINARY_PATH", sys.executable)
    assert haproxy.front_environment()["GREENWAVE_HAPROXY"] == sys.executable


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
