"""``greenwave environment``: prints what ``ray start`` must have set on every node."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from serve_app.errors import ROOT, naming_broken_files
from serve_app.rollout.node_environment import variables


def add_environment(environment: argparse.ArgumentParser) -> None:
    default = ROOT / "configs" / "cluster.yaml"
    environment.add_argument("config", nargs="?", type=Path, default=default, help="serve config")
    environment.set_defaults(run=_environment)


def _environment(options: argparse.Namespace) -> None:
    with naming_broken_files():
        from serve_app.rollout.config import read_config
    for name, value in variables(read_config(options.config)).items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
