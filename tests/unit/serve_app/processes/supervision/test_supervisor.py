"""The supervisor and its guard, as processes but without Ray."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from serve_app.processes.supervision.supervisor import MODULE, RUN

RUN_TWO = """
import os, sys, time
from pathlib import Path
from serve_app.processes.status_file import StatusFile
from serve_app.processes.supervision import run as program

class Fake:
    def __init__(self, name):
        self.name = name
    def start_or_adopt(self):
        os.write(1, b"up\\n")  # whole, beside that of the other thread
        return 1.0
    def wait(self):
        time.sleep(60)
    def stop(self):
        os.write(1, f"stopped {self.name}\\n".encode())

managed = {StatusFile(Path(sys.argv[1], name)): Fake(name) for name in ("ray", "edge")}
program.run(managed, program.events_and_signals())
"""
LOGS = """
import sys
from pathlib import Path
from serve_app.processes.supervision import run as program
from serve_app.processes.supervision.managed_process import logger

program._log_to(Path(sys.argv[1]))
for n in range(1000):
    logger.warning("%s", f"The edge has ended, {n}.")
"""


def start(program: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_edge_is_stopped_before_ray_also_when_another_thread_receives_the_signal(tmp_path):
    sends = "os.read(0, 1); signal.pthread_kill(threading.get_ident(), signal.SIGTERM)"
    program = f"import signal, threading{RUN_TWO}".replace("time.sleep", f"{sends}; time.sleep")
    with start(program, tmp_path) as supervisor:
        said, _ = supervisor.communicate("\n", timeout=20)
    assert said.splitlines()[-2:] == ["stopped edge", "stopped ray"]


def test_it_ends_with_one_sentence_where_other_users_can_write(tmp_path):
    folder = tmp_path / "ports-31000"
    folder.mkdir()
    folder.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-P", "-m", f"{MODULE}.{RUN}", "--port-base", "31000"],
        env=os.environ | {"DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"Other users can write to {folder}. Remove what is not yours")
    assert len(done.stderr.splitlines()) == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_are_text_or_json_and_a_crash_loop_writes_few(tmp_path, form):
    log = tmp_path / "supervisor.log"
    command = [sys.executable, "-c", LOGS, str(log)]
    subprocess.run(command, env=os.environ | {"LOG_FORMAT": form}, check=True)
    lines = log.read_text().splitlines()
    assert 1 <= len(lines) <= 20
    if form == "json":
        first = json.loads(lines[0])
        assert first["component_name"] == "supervisor"
        assert (first["levelname"], first["message"]) == ("WARNING", "The edge has ended, 0.")
    else:
        assert re.fullmatch(r"[-\d]+ [:\d,]+ WARNING The edge has ended, 0\.", lines[0])
