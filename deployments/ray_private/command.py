"""Ray's ``ray start`` with less to start: ``python -m deployments.ray_private.command``.

Workers import less. Of the dashboard, only the modules run that show or serve what this project
has; each is a process, whose death would restart all of Ray. There is no server for Ray Client.
The raylet starts beside the dashboard, not after it. The process ends when one that it has started
ends, as ``ray start --block`` does, but a twelfth of the memory is enough for that.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ray._private import ray_constants, services
from ray.experimental import internal_kv
from ray.scripts import scripts

# Node joins it to the folder of Ray's, which an absolute path replaces.
SETUP_WORKER = Path(__file__).with_name("setup_worker.py")

# Not those of Ray Data, Ray Train, jobs, exported events and platform events.
DASHBOARD_MODULES = "MetricsHead,NodeHead,ReportHead,ServeHead,StateHead,UsageStatsHead"
# No imports beside these, of which Ray's take 90 MB.
WAIT = "import os, sys\nwhile str(os.wait()[0]) not in sys.argv: pass"

_start_process, _get = services.start_ray_process, internal_kv._internal_kv_get
_started: list[str] = []


def _start(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
    if process_type == ray_constants.PROCESS_TYPE_DASHBOARD:
        command = [*command, f"--modules-to-load={DASHBOARD_MODULES}"]
        options = dict(each.split("=", 1) for each in command if "=" in each)
        _know_dashboard(f"{options['--host']}:{options['--port']}".encode())
    process = _start_process(command, process_type, *args, **kwargs)
    _started.append(str(process.process.pid))
    return process


def _know_dashboard(address: bytes) -> None:
    """Let Ray, which waits until the dashboard has written its address, continue at once."""

    def get(key: bytes | str, *args: Any, **kwargs: Any) -> Any:
        is_address = key == ray_constants.DASHBOARD_ADDRESS
        return address if is_address else _get(key, *args, **kwargs)

    internal_kv._internal_kv_get = get


if __name__ == "__main__":
    ray_constants.SETUP_WORKER_FILENAME = str(SETUP_WORKER)
    services.start_ray_process = _start
    # ``ray start`` starts the server if nothing that it needs is missing.
    scripts.get_ray_client_dependency_error = lambda: "not used"
    scripts.cli(prog_name="ray", standalone_mode=False)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-ISc", WAIT, *_started])
