"""The marks by which the processes of an instance are known."""

from __future__ import annotations

import os
import subprocess

import psutil
import pytest

from serve_app.processes.process_tags import MARK, read_command, read_mark

EXECUTE_ANEW = """
[ -e "$1" ] || exec sh "$0" "$1"
"""
LOOKS = 1000


@pytest.fixture
def restless(tmp_path):
    """Start a process that executes itself anew all the time, as HAProxy's master does once."""
    script, enough = tmp_path / "again", tmp_path / "enough"
    script.write_text(EXECUTE_ANEW)
    started = subprocess.Popen(["sh", str(script), str(enough)], env=os.environ | {MARK: "here"})
    yield psutil.Process(started.pid)
    enough.touch()
    started.wait()


def test_a_process_keeps_its_mark_and_command_while_it_executes_a_program(restless):
    for _ in range(LOOKS):
        assert read_mark(restless, MARK) == "here"
        assert read_command(restless)[0] == "sh"


def test_what_is_not_in_the_environment_is_no_mark(restless):
    assert read_mark(restless, "GREENWAVE_NOT_THERE") is None


def test_a_process_that_has_ended_bears_no_mark():
    ended = subprocess.Popen(["true"], env=os.environ | {MARK: "here"})
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert read_mark(psutil.Process(ended.pid), MARK) is None
    ended.wait()
