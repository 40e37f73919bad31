"""The first process of a container stays until a signal, and leaves no process behind."""

import os
import signal
import subprocess
import sys
from typing import Any

import psutil
import pytest

from serve_app.cli import foreground
from serve_app.cli.foreground import exit_on_sigterm, stay
from serve_app.errors import InstanceError


class FakeInstance:
    stopped = 0

    def stop(self) -> None:
        self.stopped += 1


class FakeSupervisor:
    """Runs for so many looks; on the one that is named, something happens."""

    def __init__(self, looks: int, events: dict[int, Any] | None = None) -> None:
        self.left = looks
        self.events = events or {}

    def is_guarded(self) -> bool:
        self.left -= 1
        self.events.get(self.left, lambda: None)()
        return self.left >= 0


@pytest.fixture
def instance(monkeypatch):
    monkeypatch.setattr(foreground, "_POLL_S", 0.0)
    return FakeInstance()


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_signal_stops_everything_in_order(instance):
    stay(instance, FakeSupervisor(5, {2: interrupt}))  # type: ignore[arg-type]
    assert instance.stopped == 1


def test_without_a_supervisor_the_rest_is_stopped_and_reported(instance):
    with pytest.raises(InstanceError, match="The supervisor has died"):
        stay(instance, FakeSupervisor(2))  # type: ignore[arg-type]
    assert instance.stopped == 1


def test_orphans_are_buried(instance):
    orphan = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(InstanceError):
        stay(instance, FakeSupervisor(3))  # type: ignore[arg-type]
    assert not psutil.pid_exists(orphan.pid)
    orphan.wait()


def test_sigterm_is_taken_for_ctrl_c():
    before = signal.getsignal(signal.SIGTERM)
    try:
        exit_on_sigterm()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
