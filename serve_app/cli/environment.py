"""``greenwave cluster environment``: the variables that ``ray start`` needs on every node."""

from __future__ import annotations

import argparse
import shlex
import sys

from serve_app.cli.arguments import CLUSTER_CONFIG, add_config
from serve_app.processes.haproxy import front_environment, front_files
from serve_app.processes.private_folder import make_private, user_folder
from serve_app.rollout.node_environment import variables


def add_environment(environment: argparse.ArgumentParser) -> None:
    add_config(environment, CLUSTER_CONFIG)
    environment.set_defaults(run=_environment)


def _environment(options: argparse.Namespace) -> None:
    from serve_app.rollout.config import read_config

    folder = user_folder()
    make_private(folder)
    environment = variables(read_config(options.config)) | {"RAY_TMPDIR": str(folder)}
    if environment.get("RAY_SERVE_ENABLE_HA_PROXY") == "1":
        environment |= front_environment() | front_files(folder / "ha")
    for name, value in environment.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
