"""Tags of the processes of an instance."""

import os
import subprocess

import psutil
import pytest

from serve_app.processes.process_tags import INSTANCE_TAG, read_command, read_tag

EXECUTE_ANEW = """
[ -e "$1" ] || exec sh "$0" "$1"
"""
LOOKS = 1000


@pytest.fixture
def restless(tmp_path):
    """Start a process that executes itself anew all the time, as HAProxy's master does once."""
    script, enough = tmp_path / "again", tmp_path / "enough"
    script.write_text(EXECUTE_ANEW)
    started = subprocess.Popen(
        ["sh", str(script), str(enough)], env=os.environ | {INSTANCE_TAG: "here"}
    )
    yield psutil.Process(started.pid)
    enough.touch()
    started.wait()


def test_a_process_keeps_its_tag_and_command_while_it_executes_a_program(restless):
    for _ in range(LOOKS):
        assert read_tag(restless, INSTANCE_TAG) == "here"
        assert read_command(restless)[0] == "sh"
    assert read_tag(restless, "GREENWAVE_NOT_THERE") is None


def test_an_ended_process_has_no_tag():
    ended = subprocess.Popen(["true"], env=os.environ | {INSTANCE_TAG: "here"})
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert read_tag(psutil.Process(ended.pid), INSTANCE_TAG) is None
    ended.wait()
