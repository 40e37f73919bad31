"""``greenwave manifest``: prints what KubeRay runs for a serve config."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

from serve_app.errors import ROOT, CommandError, naming_broken_files

HEADER = "# Made by `greenwave manifest` from a serve config; see docs/cluster.md.\n"


def add_manifest(manifest: argparse.ArgumentParser) -> None:
    default = ROOT / "configs" / "cluster.yaml"
    manifest.add_argument("config", nargs="?", type=Path, default=default, help="serve config")
    for name, value, help in (
        ("name", "greenwave", "of the RayServices"),
        ("image", f"greenwave:{version('greenwave')}", "with this version in it"),
        ("redis", "redis:6379", "host and port of Redis, for Ray's own state"),
        (
            "secret",
            "greenwave",
            "Secret with redis-password, store-url, jwt-secret, inference-token",
        ),
        ("gateway-class", "istio", "of the Gateway API, for upgrades by degrees"),
    ):
        manifest.add_argument(f"--{name}", default=value, help=f"{help} (default: {value})")
    cpus = "CPUs of each worker (default: 2)"
    manifest.add_argument("--worker-cpus", type=int, default=2, help=cpus)
    keys = "Secret with jwt-keys.json, which `greenwave keys` has written (default: none)"
    manifest.add_argument("--signing-keys", metavar="SECRET", help=keys)
    manifest.set_defaults(run=_manifest)


def _manifest(options: argparse.Namespace) -> None:
    sys.stdout.write(render(options))


def render(options: argparse.Namespace) -> str:
    """Return the documents as YAML.

    Raises:
        CommandError: the config is not valid, or a replica is larger than a worker.
    """
    with naming_broken_files():
        from serve_app.kubernetes.services import Wishes, documents
        from serve_app.kubernetes.text import to_yaml
        from serve_app.rollout.config import read_config
        from serve_app.rollout.resources import scales
    config = read_config(options.config)
    for scale in scales(config):
        if scale.cpus > options.worker_cpus:
            raise CommandError(
                f"Each replica of {scale.application} needs {scale.cpus:g} CPUs, and a worker has"
                f" {options.worker_cpus}; see --worker-cpus."
            )
    wishes = Wishes(**{name: getattr(options, name) for name in Wishes._fields})
    return HEADER + to_yaml(*documents(config, wishes))
