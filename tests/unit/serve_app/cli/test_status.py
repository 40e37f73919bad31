"""What ``greenwave status`` says of those who keep the system: real processes in their places."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from serve_app.cli import status as status_command
from serve_app.cli.main import main
from serve_app.processes.installation import instance_of
from serve_app.processes.process_tags import KEPT_BY, MARK, PART, Part
from serve_app.processes.supervision.supervisor import MODULE

Process = subprocess.Popen[bytes]
ORPHAN = "nothing keeps it"
NO_SUPERVISOR = "no supervisor: a keeper that dies stays dead; `{}` starts one"


@pytest.fixture
def play(tmp_path, monkeypatch) -> Iterator[Callable[..., Process]]:
    """Let a process bear the marks of a part, and a keeper's command line."""
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setattr(status_command, "running", lambda options: instance_of(None))
    monkeypatch.setattr(status_command, "statuses", lambda url: {"probed": ("RUNNING", "")})
    monkeypatch.setattr(status_command, "routes", lambda url: {"probed": "/probed"})
    monkeypatch.setattr(status_command, "lacks", lambda url: [])
    started: list[Process] = []

    def start(part: Part, *words: str, **marks: str) -> Process:
        program = "print('up', flush=True); input()"
        process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            env={MARK: str(tmp_path.resolve()), PART: str(part), **marks},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def status(capsys) -> Callable[[], dict[str, str]]:
    """Map the first word of each line to the line."""

    def run() -> dict[str, str]:
        assert main(["status"]) == 0
        return {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}

    return run


def end(process: Process) -> None:
    process.kill()
    process.wait()


def test_a_dead_supervisor_is_said(play, status, tmp_path):
    supervisor = play(Part.SUPERVISOR)
    for part in (Part.NODE, Part.EDGE):
        play(part, MODULE)
    assert "no" not in status()
    end(supervisor)
    lines = status()
    assert lines["no"] == NO_SUPERVISOR.format(f"DATA_DIR={tmp_path} make up")
    assert ORPHAN not in lines["edge"] + lines["Ray"]


def test_a_service_that_runs_and_is_not_ready_says_what_is_missing(play, status, monkeypatch):
    assert status()["probed"].split() == ["probed", "RUNNING"]
    missing = {"/probed": "The store does not serve."}
    monkeypatch.setattr(
        status_command, "lacks", lambda url: [said for path, said in missing.items() if path in url]
    )
    assert status()["probed"].endswith("RUNNING (not ready: The store does not serve.)")


@pytest.mark.parametrize(("part", "name"), [(Part.NODE, "Ray"), (Part.EDGE, "edge")])
def test_a_dead_keeper_is_said_although_what_it_kept_bears_its_mark(play, status, part, name):
    play(Part.SUPERVISOR)
    play(part, "haproxy")
    keeper = play(part, MODULE)
    assert ORPHAN not in status()[name]
    end(keeper)
    assert ORPHAN in status()[name]


def test_under_systemd_no_supervisor_is_missed_even_while_a_keeper_is_started_again(play, status):
    keepers = [play(part, MODULE, **{KEPT_BY: "systemd"}) for part in (Part.NODE, Part.EDGE)]
    assert "no" not in status()
    end(keepers[0])
    assert "no" not in status()
