"""A worker gets the same arguments and environment as from Ray's own setup_worker.py."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray

from deployments.ray_private.command import SETUP_WORKER

RAYS = Path(ray.__file__).with_name("_private") / "workers" / "setup_worker.py"
WORKER = """import json, os, sys
json.dump([sys.argv, sys.flags.no_user_site, dict(os.environ)], open(os.environ["TOLD"], "w"))
"""
# Ray goes through a shell, and sets the last one whenever it is imported.
OF_RAYS_WAY = {"_", "SHLVL", "OLDPWD", "PWD", "RAY_CLIENT_MODE"}


@pytest.fixture
def worker(tmp_path) -> Path:
    path: Path = tmp_path / "default worker.py"
    path.write_text(WORKER)
    return path


def started(setup: Path, worker: Path, context: dict[str, Any] | None) -> Any:
    told = worker.with_name(f"told-{setup.parent.name}.json")
    arguments = ["--node-ip-address=127.0.0.1", "--raylet-name=a $HOME 'b", "--worker-id=1"]
    options = ["--language=PYTHON"]
    if context is not None:
        options.append(f"--serialized-runtime-env-context={json.dumps(context)}")
    environment = {"PATH": os.environ["PATH"], "TOLD": str(told), "WHO": "me", "KEPT": "kept"}
    subprocess.run(
        [sys.executable, str(setup), "-s", str(worker), *arguments, *options, "--last"],
        env=environment,
        check=True,
        capture_output=True,
    )
    argv, flag, seen = json.loads(told.read_text())
    told.unlink()
    return argv, flag, {k: v for k, v in seen.items() if k not in OF_RAYS_WAY | {"TOLD"}}


@pytest.mark.parametrize(
    "context",
    [
        None,
        {},
        {"env_vars": {"WHO": "you", "NEW": "é \"'$(x)"}},
        {"env_vars": {"WHO": "${WHO}:$KEPT:${MISSING}", "AFTER": "${WHO}"}},
        {
            "env_vars": None,
            "py_executable": sys.executable,
            "command_prefix": [],
            "override_worker_entrypoint": None,
            "java_jars": [],
        },
        {"command_prefix": ["export", "WHO=prefix", "&&"]},
        {"py_executable": f"env WHO=program {sys.executable}"},
    ],
)
def test_it_sets_what_ray_sets(worker, context):
    ours = started(SETUP_WORKER, worker, context)
    assert ours == started(RAYS, worker, context)
    assert ours[0][0] == str(worker)
    assert ours[2]["KEPT"] == "kept"


def test_a_context_that_a_later_ray_extends_is_left_to_ray(worker):
    with pytest.raises(subprocess.CalledProcessError) as error:
        started(SETUP_WORKER, worker, {"not_known": 1})
    assert b"not_known" in error.value.stderr  # Ray's class refuses it


def test_it_imports_nothing_of_ray():
    script = f"import runpy, sys; runpy.run_path({str(SETUP_WORKER)!r}); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, check=True)
    assert b"argparse" in run.stdout
    assert not {name for name in run.stdout.decode().split() if name.split(".")[0] == "ray"}
