"""A supervisor restarts its process at once after a long run, and with backoff in a crash loop."""

import threading

import pytest

from serve_app.errors import CommandError
from serve_app.processes.status_file import Status, StatusFile
from serve_app.processes.supervision.managed_process import (
    FIRST_BACKOFF_S,
    MAX_BACKOFF_S,
    supervise,
)


class FakeProcess:
    """Runs for each of some times, or refuses to start."""

    def __init__(self, lives: list[float | str]) -> None:
        self.lives = lives
        self.now = 0.0
        self.pauses: list[float] = []

    def start_or_adopt(self) -> float:
        if isinstance(self.lives[0], str):
            raise CommandError(str(self.lives.pop(0)))
        return 1000.0 + self.now

    def wait(self) -> str:
        self.now += float(self.lives.pop(0))
        return "It has died.\nIts log ends with:"

    def stop(self) -> None:
        pass


class Stopping(threading.Event):
    """Notes the pauses of a supervisor, and ends it when its process has no further life."""

    def __init__(self, process: FakeProcess) -> None:
        super().__init__()
        self.process = process

    def wait(self, timeout: float | None = None) -> bool:
        self.process.pauses.append(timeout or 0.0)
        return not self.process.lives


@pytest.fixture
def status_file(tmp_path):
    return StatusFile(tmp_path / "ray.json")


@pytest.fixture
def run(status_file):
    def run(*lives: float | str) -> FakeProcess:
        process = FakeProcess(list(lives))
        supervise(process, status_file, Stopping(process), clock=lambda: process.now)
        return process

    return run


def test_a_crash_loop_backs_off_and_never_gives_up(run):
    pauses = run(*[0.0] * 20).pauses[1:]
    assert pauses[0] == FIRST_BACKOFF_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_BACKOFF_S
    assert len(pauses) == 20


def test_after_a_long_run_it_restarts_at_once(run):
    assert run(0.0, 0.0, 3600, 0.0).pauses[3:] == [0, FIRST_BACKOFF_S]


@pytest.mark.parametrize(
    ("lives", "status"),
    [
        ([5, "Port 8000 is taken.", "Port 8000 is taken.", 5], Status(None, 2, "It has died.")),
        (["Port 8000 is taken."], Status(None, 0, "Port 8000 is taken.")),
    ],
)
def test_the_status_has_the_restarts_and_the_last_error_in_one_line(
    run, status_file, lives, status
):
    run(*lives)
    assert status_file.read() == status


def test_a_status_that_cannot_be_written_stops_nothing(tmp_path):
    status_file = StatusFile(tmp_path / "missing" / "ray.json")
    status_file.record_start(since=17.0)
    assert status_file.read() == Status()
