"""The command line: ``greenwave --help`` lists its commands.

A command's module is imported when it is called, so that code that does not import keeps nobody
from the others: a system must be stoppable.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from pydantic import ValidationError
from rich.console import Console

from deployments.store import StoreError
from serve_app.errors import CommandError, naming_broken_files
from serve_app.processes.instance import InstanceError
from serve_app.rollout.deploy import DeployError
from serve_app.settings import InsecureSettingsError

_USER_ERRORS = (CommandError, InstanceError, DeployError, InsecureSettingsError, StoreError)

# Each with the module whose add_NAME adds its arguments, and sets `run`, a function of them.
COMMANDS = {
    "up": ("up", "start and keep Ray and the edge, and deploy the config"),
    "down": ("status", "stop what 'up' started"),
    "status": ("status", "show what runs, since when, and how often it was restarted"),
    "deploy": (
        "deploy",
        "deploy a config, and the code as it is now, while the old version serves",
    ),
    "rollback": ("deploy", "deploy the config before the present one again"),
    "dashboards": ("dashboards", "start Prometheus and Grafana to watch what runs"),
    "canary": (
        "canary",
        "try a policy beside the one in service, on a share of the runs or as a shadow",
    ),
    "units": (
        "units",
        "write systemd's units for this installation, in place of 'up's own supervisor",
    ),
    "environment": ("environment", "print what `ray start` must have set on every node"),
    "manifest": ("manifest", "print what KubeRay runs for a serve config"),
    "users": (
        "users",
        "list, add and remove the gateway's users, and change their passwords",
    ),
    "tokens": ("tokens", "make, list and revoke long-lived tokens of service accounts"),
    "keys": ("keys", "list, rotate and retire the keys that sign access tokens"),
    "audit": ("audit", "show who logged in, and what was reset, refused and changed"),
    "export": ("records", "write all customer records of the store (STORE_URL) to a file"),
    "import": ("records", "create the customer records of a file in the store (STORE_URL)"),
    "backup": ("backup", "copy the whole embedded store to a file, while the system runs"),
    "restore": ("backup", "put a backup in the place of the store, while nothing runs"),
    "check": ("deploy", "check serve configs for unknown keys and wrong values"),
    "network": ("network", "import, check and draw a road network of your own"),
    "demand": ("demand", "make routes for a road network from counts at its entries"),
    "evaluate": ("evaluate", "compare controllers and a policy on a city of your own"),
    "node": (
        "node",
        "check that this machine has the code, the files and the Redis of a cluster",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors that a user can meet end in one sentence and exit code 1."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        options = _parser(next(iter(words), None)).parse_args(words)
        options.run(options)
    except ValidationError as error:
        return _fail(f"{_variable(error)} is not valid: {error.errors()[0]['msg']}")
    except _USER_ERRORS as error:
        return _fail(str(error))
    except KeyboardInterrupt as interrupt:
        return _fail(str(interrupt), code=130) if interrupt.args else 130
    return 0


def _fail(sentence: str, code: int = 1) -> int:
    Console(stderr=True, highlight=False, soft_wrap=True).print(sentence, style="red", markup=False)
    return code


def _variable(error: ValidationError) -> str:
    """Name the first environment variable that :class:`Settings` refuses."""
    return "_".join(map(str, error.errors()[0]["loc"])).upper()


def _parser(called: str | None) -> argparse.ArgumentParser:
    """Return a parser that knows every command, and the arguments of the one that is called."""
    parser = argparse.ArgumentParser(
        prog="greenwave", description="Start, stop and tend the services."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (module, help) in COMMANDS.items():
        command = commands.add_parser(name, help=help, description=help)
        if name == called:
            with naming_broken_files():
                home = import_module(f"serve_app.cli.{module}")
            getattr(home, f"add_{name}")(command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
