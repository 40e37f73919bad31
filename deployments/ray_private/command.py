"""Ray's command line with less to start: ``python -m deployments.ray_private.command``.

Workers import less. Of the dashboard, only the modules run that show or serve what this project
has; each is a process, whose death would restart all of Ray. There is no server for Ray Client.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray._private import ray_constants, services
from ray.scripts import scripts

# Node joins it to the folder of Ray's, which an absolute path replaces.
SETUP_WORKER = Path(__file__).with_name("setup_worker.py")

# Not those of Ray Data, Ray Train, jobs, exported events and platform events.
DASHBOARD_MODULES = "MetricsHead,NodeHead,ReportHead,ServeHead,StateHead,UsageStatsHead"

_start_process = services.start_ray_process


def _start(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
    if process_type == ray_constants.PROCESS_TYPE_DASHBOARD:
        command = [*command, f"--modules-to-load={DASHBOARD_MODULES}"]
    return _start_process(command, process_type, *args, **kwargs)


if __name__ == "__main__":
    ray_constants.SETUP_WORKER_FILENAME = str(SETUP_WORKER)
    services.start_ray_process = _start
    # ``ray start`` starts the server if nothing that it needs is missing.
    scripts.get_ray_client_dependency_error = lambda: "not used"
    scripts.cli(prog_name="ray")
