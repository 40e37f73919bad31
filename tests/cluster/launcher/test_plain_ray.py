"""``ray start`` and ``serve deploy`` as Ray's users type them, beside and without ``make up``.

Each test has a machine of its own: namespaces of network, mounts and processes. So the commands
keep their usual ports and folders, and the end of the first process ends exactly what was started.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from load_tests.harness.shipped import ROOT, shipped_config
from models.networks.shipped import SHIPPED
from models.policy.form import SHIPPED_POLICY
from serve_app.processes.ports import Ports
from serve_app.rollout.node_environment import RAY
from tests.support.network import why_not
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)

PLAIN = "ray start --head --port=6390 && serve deploy serve_config.yaml"
NOBODY = 65534
SERVING_S = 240.0
BODY = {"junction_id": SHIPPED.ids[0], "obs_data": [1, 0.5]}
# Of the applications, those that need no policy.
OTHERS = ("/density", "/flow", "/api/accounts", "/api/loans", "/api/cards", "/console")
BIN = Path(sys.executable).parent
# Of Ray, of Serve, and of `make up`.
TEMPORARY = ("ray", "haproxy-serve", f"greenwave-{NOBODY}")
# Ray takes the address of the default route. The last part lets other users reach a Python in
# a closed folder; mounts are seen by this machine alone.
_SETUP = """
ip link set lo up
ip link add eth0 type bridge
ip addr add 10.0.0.2/24 dev eth0
ip link set eth0 up
ip route add default dev eth0
for name in $0; do mount --bind "$1/$name" "/tmp/$name"; done
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
if [ "$2" ]; then
    mount --bind "$3" /mnt
    mount -t tmpfs -o mode=755 tmpfs "$2"
    mkdir -p "$3"
    mount --bind /mnt "$3"
fi
echo ready
sleep infinity & wait
"""


class Machine:
    """A machine of an unprivileged user with its own ports, processes and temporary folders of Ray.

    Args:
        home: of its user, with everything that outlives the machine.
    """

    def __init__(self, home: Path, folder: Path, **env: str) -> None:
        inherited = {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}
        path = f"{BIN}:{os.environ['PATH']}"
        self._env = inherited | {"HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT)} | env
        for name in TEMPORARY:
            Path("/tmp", name).mkdir(exist_ok=True)
            (folder / name).mkdir(parents=True, mode=0o700)
            os.chown(folder / name, NOBODY, NOBODY)
        own = ("--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL")
        python = (closed_folder(Path(sys.base_prefix)), sys.base_prefix)
        self._unshare = subprocess.Popen(
            ["unshare", *own, "bash", "-ec", _SETUP, " ".join(TEMPORARY), str(folder), *python],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._unshare.stdout
        if self._unshare.stdout.readline() != "ready\n":
            self.end()
            pytest.skip("This machine cannot set up network and mount namespaces.")
        (first,) = psutil.Process(self._unshare.pid).children()
        self._first = first

    def run(self, script: str, timeout_s: float = 200.0) -> subprocess.CompletedProcess[str]:
        """Run a script of the shell as the machine's user, in the root of the repository."""
        user = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        enter = (
            "nsenter",
            f"--target={self._first.pid}",
            "--net",
            "--mount",
            "--pid",
            f"--wd={ROOT}",
        )
        return subprocess.run(
            [*enter, "setpriv", *user, "bash", "-c", script],
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def ask(self, path: str, body: object = None, port: int = 8000) -> tuple[int, str]:
        """Return status and text of an answer; status 0 without one."""
        words = ["curl", "--silent", "--max-time", "10", "--write-out", "\n%{http_code}"]
        if body is not None:
            words += ["--header", "Content-Type: application/json", "--data", json.dumps(body)]
        answer = self.run(shlex.join([*words, f"http://127.0.0.1:{port}{path}"])).stdout
        text, _, status = answer.rpartition("\n")
        return int(status), text

    def health(self) -> Any:
        """Return the health of the inference service, which may start meanwhile."""
        wait_until(lambda: self.ask("/model_info")[0] == 200, self, "/model_info")
        return json.loads(self.ask("/health")[1])

    def end(self) -> None:
        """Kill the first process, and with it all others of the machine."""
        self._unshare.kill()
        self._unshare.wait()
        assert self._unshare.stdout
        self._unshare.stdout.close()


def closed_folder(path: Path) -> str:
    """Return the outermost folder on the way to a path that other users may not pass, or ""."""
    closed = (each for each in reversed(path.parents) if not each.stat().st_mode & 0o001)
    return str(next(closed, ""))


def wait_until(holds: Callable[[], bool], machine: Machine, what: str) -> None:
    def states() -> str:
        return f"{what}: {machine.run('serve status').stdout}"

    until(holds, states, SERVING_S)


def check_others(machine: Machine, front: int) -> None:
    for prefix in OTHERS:
        path = f"{prefix}/readyz"
        wait_until(
            lambda path=path: machine.ask(path, port=front)[0] == 200,  # type: ignore[misc]
            machine,
            path,
        )


def check_serves(machine: Machine, front: int = 8000) -> None:
    """Check all applications, with those that need no policy at the port of Serve's front."""
    assert machine.health()["status"] == "healthy"
    assert machine.ask("/predict_action", BODY)[0] == 200
    check_others(machine, front)


def check_serves_without_policy(machine: Machine, front: int = 8000) -> None:
    health = machine.health()
    assert (health["status"], health["model_loaded"]) == ("no_model", False)
    status, text = machine.ask("/predict_action", BODY)
    assert (status, json.loads(text)) == (503, {"detail": "Model not loaded"})
    check_others(machine, front)


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gw-", dir="/tmp"))  # all users may pass /tmp
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Machine]]:
    """Start machines, all with the same home."""
    if reason := why_not():
        pytest.skip(reason)
    machines: list[Machine] = []

    def start(**env: str) -> Machine:
        machines.append(Machine(home, home / f"machine-{len(machines)}", **env))
        return machines[-1]

    yield start
    for machine in machines:
        machine.end()


def succeed(machine: Machine, script: str) -> str:
    """Run a script that must succeed, and return what it prints."""
    done = machine.run(script)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_up_takes_a_policy_later_and_after_down_another_user_has_plain_ray(start, home):
    policy = home / "agent.th"
    machine = start(MAPPO_AGENT_PATH=str(policy))
    if machine.run(f"test -r serve_config.yaml && {sys.executable} -c 'import ray'").returncode:
        pytest.skip("Other users cannot read the repository or its virtual environment.")
    refused = machine.run("greenwave up")
    assert refused.returncode == 1
    assert f"Application inference: {policy}" in refused.stderr
    started = machine.run("greenwave up --without-policy")
    assert started.returncode == 0, started.stdout + started.stderr
    assert "has no policy" in started.stderr
    front = Ports().front  # the edge's port 8000 serves inference alone
    check_serves_without_policy(machine, front)

    shutil.copy(SHIPPED_POLICY, policy)
    config = shipped_config()
    config["applications"][0]["deployments"][0]["user_config"]["revision"] = 1
    (home / "config.yaml").write_text(yaml.safe_dump(config))
    succeed(machine, f"greenwave deploy {home / 'config.yaml'}")
    check_serves(machine, front)

    succeed(machine, "greenwave down")
    assert machine.run("ls -A ~/.ray").stdout == ""
    machine.end()
    after = start(**RAY)
    succeed(after, PLAIN)
    check_serves(after)
