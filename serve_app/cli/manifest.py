"""``greenwave cluster manifest``: the Kubernetes manifest of a serve config, for KubeRay."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version

from serve_app.cli.arguments import CLUSTER_CONFIG, add_config
from serve_app.errors import CommandError

HEADER = "# Made by `greenwave cluster manifest` from a serve config; see docs/cluster.md.\n"


def add_manifest(manifest: argparse.ArgumentParser) -> None:
    add_config(manifest, CLUSTER_CONFIG)
    for name, default, help in (
        ("image", f"greenwave:{version('greenwave')}", "with this version in it"),
        ("redis", "redis:6379", "host and port of Redis, for Ray's own state"),
        ("gateway-class", "istio", "of the Gateway API, for gradual upgrades"),
    ):
        manifest.add_argument(f"--{name}", default=default, help=f"{help} (default: {default})")
    cpus = "CPUs of each worker (default: 2)"
    manifest.add_argument("--worker-cpus", type=int, default=2, help=cpus)
    keys = "Secret with the jwt-keys.json of `greenwave keys` (default: none)"
    manifest.add_argument("--signing-keys", metavar="SECRET", help=keys)
    manifest.set_defaults(run=_manifest)


def _manifest(options: argparse.Namespace) -> None:
    from serve_app.kubernetes import ManifestValues, render
    from serve_app.rollout.capacity import scales
    from serve_app.rollout.config import read_config

    config = read_config(options.config)
    for scale in scales(config):
        if scale.cpus > options.worker_cpus:
            raise CommandError(
                f"Each replica of {scale.application} needs {scale.cpus:g} CPUs, and a worker has"
                f" {options.worker_cpus}; see --worker-cpus."
            )
    values = {name: getattr(options, name) for name in ManifestValues._fields}
    sys.stdout.write(HEADER + render(config, ManifestValues(**values)))
