"""``greenwave cluster``: what prepares the machines of a cluster, and Kubernetes, for a config.

Ray refuses a node with another Ray or Python, but does not know the code that it runs. Without its
Redis, it ends after a minute with a stack trace. So ``node`` checks both before ``ray start``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from serve_app.cli.arguments import CLUSTER_CONFIG, add_config
from serve_app.cli.terminal import results
from serve_app.errors import CommandError
from serve_app.kubernetes import ManifestValues, render
from serve_app.processes.haproxy import front_environment, front_files
from serve_app.processes.private_folder import make_private, user_folder
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.code_version import VARIABLE, module_of, version_of
from serve_app.rollout.config import read_config
from serve_app.rollout.model_files import find_file_faults
from serve_app.rollout.node_environment import REDIS_VARIABLES, unreachable_redis, variables
from serve_app.settings import Settings, variables_of

HEADER = "# Made by `greenwave cluster manifest` from a serve config; see docs/cluster.md.\n"
_MODEL_FILES = ("MAPPO_AGENT_PATH", "DENSITY_MODEL_PATH", "FLOW_MODEL_PATH")


def add_environment(environment: argparse.ArgumentParser) -> None:
    add_config(environment, CLUSTER_CONFIG)
    environment.set_defaults(run=_environment)


def add_manifest(manifest: argparse.ArgumentParser) -> None:
    add_config(manifest, CLUSTER_CONFIG)
    for name, default, help in (
        ("image", f"greenwave:{version('greenwave')}", "with this version in it"),
        ("redis", "redis:6379", "host and port of Redis, for Ray's own state"),
        ("gateway-class", "istio", "of the Gateway API, for gradual upgrades"),
    ):
        manifest.add_argument(f"--{name}", default=default, help=f"{help} (default: {default})")
    keys = "Secret with the jwt-keys.json of `greenwave keys` (default: none)"
    manifest.add_argument("--signing-keys", metavar="SECRET", help=keys)
    manifest.set_defaults(run=_manifest)


def add_node(node: argparse.ArgumentParser) -> None:
    help = "dashboard of the head, such as http://10.0.0.11:8265; not given on the head itself"
    node.add_argument("--cluster", metavar="URL", help=help)
    node.set_defaults(run=_node)


def _environment(options: argparse.Namespace) -> None:
    folder = user_folder()
    make_private(folder)
    environment = variables(read_config(options.config)) | {"RAY_TMPDIR": str(folder)}
    if environment.get("RAY_SERVE_ENABLE_HA_PROXY") == "1":
        environment |= front_environment() | front_files(folder / "ha")
    for name, value in environment.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")


def _manifest(options: argparse.Namespace) -> None:
    values = {name: getattr(options, name) for name in ManifestValues._fields}
    sys.stdout.write(HEADER + render(read_config(options.config), ManifestValues(**values)))


def _node(options: argparse.Namespace) -> None:
    if unreachable := list(unreachable_redis(os.environ)):
        raise CommandError("\n".join(unreachable))
    if options.cluster is None:
        if named := " and ".join(name for name in REDIS_VARIABLES if os.environ.get(name)):
            results.print(f"{named}: Redis accepts connections.")
        else:
            results.print(f"Neither {' nor '.join(REDIS_VARIABLES)} is set: a cluster needs both.")
        results.print("There is no cluster yet to compare this machine with.")
        return
    applications = read_deployed(RayDashboard(options.cluster.rstrip("/")))
    if differences := list(find_differences(applications)):
        raise CommandError("\n".join(differences))
    for name, config in applications.items():
        if VARIABLE not in variables_of(config):
            results.print(f"{name} was deployed without a version of its code.", style="yellow")
    results.print("This machine has the code and the model files that the cluster serves.")


def read_deployed(dashboard: RayDashboard) -> dict[str, dict[str, Any]]:
    """Return the configs of our applications as they were deployed, by name.

    Raises:
        CommandError: nothing of ours is deployed.
        httpx.HTTPError: the dashboard does not answer.
    """
    applications = dashboard.applications().items()
    served = {name: each.get("deployed_app_config") for name, each in applications}
    ours = {name: config for name, config in served.items() if config and module_of(config)}
    if not ours:
        raise CommandError(f"The cluster at {dashboard.url} serves nothing to compare with.")
    return ours


def find_differences(applications: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each application that this machine would serve differently."""
    for name, config in applications.items():
        here, deployed = version_of(config), variables_of(config).get(VARIABLE)
        if deployed not in (None, here):
            yield (
                f"Application {name} is served with version {deployed} of the code, and this"
                f" machine has version {here}. Install the same on every node."
            )
    named = [_with_local_files(config) for config in applications.values()]
    yield from find_file_faults({"applications": named})


def _with_local_files(config: dict[str, Any]) -> dict[str, Any]:
    """Name the model files of this machine's settings, unless the config names others."""
    settings = Settings()
    files = {name: str(getattr(settings, name.lower())) for name in _MODEL_FILES}
    return config | {"runtime_env": {"env_vars": files | {**variables_of(config)}}}
