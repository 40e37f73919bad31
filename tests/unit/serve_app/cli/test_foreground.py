"""The first process of a container stays until a signal, and leaves no process behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from serve_app.cli import up
from serve_app.cli.up import exit_on_sigterm, stay
from serve_app.errors import InstanceError
from serve_app.processes.supervision.supervisor import Supervisor


class FakeInstance:
    stopped = 0

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def instance(monkeypatch):
    monkeypatch.setattr(up, "_POLL_S", 0.0)
    return FakeInstance()


@pytest.fixture
def stays(instance) -> Callable[..., None]:
    """Stay until the guard has been looked for so often, and then meet an event."""

    def stays(looks: int, event: Callable[[], None]) -> None:
        left = iter(range(looks))

        def is_guarded() -> bool:
            if next(left, None) is not None:
                return True
            event()
            return False

        supervisor = SimpleNamespace(is_guarded=is_guarded)
        stay(instance, cast(Supervisor, supervisor))

    return stays


def test_sigterm_stops_everything(stays, instance):
    before = signal.getsignal(signal.SIGTERM)
    try:
        exit_on_sigterm()
        stays(3, lambda: signal.raise_signal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert instance.stopped == 1


def test_without_a_supervisor_the_rest_is_stopped_and_orphans_are_reaped(stays, instance):
    orphan = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(InstanceError, match="The supervisor has died"):
        stays(3, lambda: None)
    assert instance.stopped == 1
    assert not psutil.pid_exists(orphan.pid)
    orphan.wait()
