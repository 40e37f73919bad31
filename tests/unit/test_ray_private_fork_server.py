"""Workers of one environment are forked from one process, and are what their command would run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from deployments.ray_private.command import SETUP_WORKER
from serve_app.rollout.code_version import VARIABLE
from tests.support.waiting import until

WORKER = """import json, os, sys
if __name__ != "__main__":  # the server imports it, too
    raise ImportError
print("printed", flush=True)
seen = {"argv": sys.argv, "path": sys.path[0], "name": __name__, "folder": os.getcwd()}
seen |= {"group": os.getpgrp(), "pid": os.getpid(), "parent": os.getppid()}
seen |= {"environment": dict(os.environ), "preloaded": "jwt" in sys.modules, "revision": 1}
with open(os.environ["TOLD"] + ".new", "w") as file:
    json.dump(seen, file)
os.rename(file.name, os.environ["TOLD"])
"""

DRAW = """import os
from deployments.ray_private.fork_server import preload
preload()
from ray._raylet import JobID, PlacementGroupID
for _ in range(2):
    if os.fork() == 0:
        print(PlacementGroupID.of(JobID.from_int(1)).hex(), flush=True)
        os._exit(0)
    os.wait()
"""


class Raylet:
    """A process with a Ray whose workers report what they see."""

    def __init__(self, folder: Path) -> None:
        packages = folder / "packages"
        self.worker = packages / "ray" / "_private" / "workers" / "default_worker.py"
        self.worker.parent.mkdir(parents=True)
        (packages / "ray" / "__init__.py").touch()
        self.worker.write_text(WORKER)
        self.sockets = folder / "sockets"
        self.sockets.mkdir()
        self._told, self._printed = folder / "told.json", folder / "printed"
        self.process = subprocess.Popen(["sleep", "60"])
        self._environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(packages),
            "RAY_RAYLET_PID": str(self.process.pid),
            "TOLD": str(self._told),
        }

    def start(self, **variables: str) -> dict[str, Any]:
        """Start a worker with these variables; return what it has seen, and printed."""
        context = json.dumps({"env_vars": variables})
        command = [sys.executable, str(SETUP_WORKER), str(self.worker)]
        command += [f"--raylet-name={self.sockets / 'raylet'}", "--language=PYTHON"]
        command.append(f"--serialized-runtime-env-context={context}")
        with self._printed.open("w") as file:
            subprocess.run(command, env=self._environment, check=True, stdout=file)
        until(self._told.exists)
        seen: dict[str, Any] = json.loads(self._told.read_text())
        self._told.unlink()
        return seen | {"printed": self._printed.read_text()}


@pytest.fixture
def raylet(tmp_path):
    raylet = Raylet(tmp_path)
    yield raylet
    raylet.process.kill()
    raylet.process.wait()


def test_workers_of_one_environment_have_one_parent(raylet):
    first = raylet.start(WHO="me", **{VARIABLE: "1"})
    assert first["parent"] == raylet.start(WHO="me", **{VARIABLE: "2"})["parent"]
    assert first["parent"] != raylet.start(WHO="you")["parent"]


def test_a_forked_worker_is_what_its_command_runs(raylet):
    raylet.start(WHO="me", **{VARIABLE: "1"})
    forked = raylet.start(WHO="me", **{VARIABLE: "2"})
    raylet.sockets.rename(raylet.sockets.with_name("away"))  # nothing can be forked
    started = raylet.start(WHO="me", **{VARIABLE: "2"})
    assert forked.pop("preloaded")
    assert not started.pop("preloaded")
    for each in (forked, started):
        del each["pid"], each["parent"], each["group"]
    assert forked == started
    assert forked["printed"] == "printed\n"


def test_a_forked_worker_leads_its_process_group(raylet):
    for _ in range(2):
        forked = raylet.start()
        assert forked["group"] == forked["pid"]


def test_a_forked_worker_has_the_code_that_is_on_the_disk(raylet):
    before = raylet.start()
    raylet.worker.write_text(WORKER.replace('"revision": 1', '"revision": 2'))
    after = raylet.start()
    assert (before["revision"], after["revision"]) == (1, 2)
    assert before["parent"] == after["parent"]


def test_the_next_worker_replaces_a_server_that_has_died(raylet):
    dead = psutil.Process(raylet.start()["parent"])
    dead.send_signal(signal.SIGKILL)
    until(lambda: not dead.is_running())
    after = raylet.start()
    assert after["parent"] != dead.pid
    assert after["preloaded"]


def test_a_server_ends_with_its_raylet(raylet):
    server = psutil.Process(raylet.start()["parent"])
    raylet.process.kill()
    raylet.process.wait()
    until(lambda: not server.is_running())


def test_workers_that_have_imported_this_ray_draw_different_random_numbers():
    done = subprocess.run([sys.executable, "-c", DRAW], capture_output=True, text=True)
    assert len(set(done.stdout.split())) == 2, done.stderr
