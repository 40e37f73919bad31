"""The marks by which the processes of an instance are known."""

from __future__ import annotations

import os
import subprocess

import psutil
import pytest

from serve_app.launcher.marks import MARK, read_command, read_mark

EXECUTE_ANEW = """
[ "$1" -lt 300 ] && exec sh "$0" $(($1 + 1))
exec cat
"""


@pytest.fixture
def restless(tmp_path):
    """Start a process that executes itself anew all the time, as HAProxy's master does once."""
    script = tmp_path / "again"
    script.write_text(EXECUTE_ANEW)
    started = subprocess.Popen(
        ["sh", str(script), "0"], stdin=subprocess.PIPE, env=os.environ | {MARK: "here"}
    )
    yield psutil.Process(started.pid)
    started.communicate()


def test_a_process_keeps_its_mark_and_command_while_it_executes_a_program(restless):
    looks = 0
    while read_command(restless)[0] != "cat":
        assert read_mark(restless, MARK) == "here"
        looks += 1
    assert looks > 100


def test_what_is_not_in_the_environment_is_no_mark(restless):
    assert read_mark(restless, "GREENWAVE_NOT_THERE") is None


def test_a_process_that_has_ended_bears_no_mark():
    ended = subprocess.Popen(["true"], env=os.environ | {MARK: "here"})
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert read_mark(psutil.Process(ended.pid), MARK) is None
    ended.wait()
