"""Ray's command line, whose workers start sooner: ``python -m deployments.ray_private.command``."""

from __future__ import annotations

from pathlib import Path

from ray._private import ray_constants
from ray.scripts.scripts import cli

# Node joins it to the folder of Ray's, which an absolute path replaces.
SETUP_WORKER = Path(__file__).with_name("setup_worker.py")

if __name__ == "__main__":
    ray_constants.SETUP_WORKER_FILENAME = str(SETUP_WORKER)
    cli(prog_name="ray")
