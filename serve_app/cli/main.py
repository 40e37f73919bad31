"""The command line: ``greenwave --help`` lists its commands.

A command's module is imported when the command is called, so that code that does not import never
prevents another command: a system must be stoppable.
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
from serve_app.settings import InsecureSettingsError

# Each with the module whose add_NAME adds its arguments, and sets `run`, a function of them.
COMMANDS = {
    "up": ("up", "start and supervise Ray and the edge, and deploy the config"),
    "down": ("status", "stop what 'up' started"),
    "status": ("status", "show what runs, since when, and how often it was restarted"),
    "deploy": ("deploy", "deploy a config and the present code while the old version serves"),
    "rollback": ("deploy", "deploy the config before the present one again"),
    "check": ("deploy", "check serve configs for unknown keys and wrong values"),
    "canary": ("canary", "run a policy beside the one in service, on some runs or as a shadow"),
    "dashboards": ("dashboards", "start Prometheus and Grafana for the running system"),
    "units": ("units", "write systemd units for this installation, in place of supervisord"),
    "environment": ("environment", "print the variables that `ray start` needs on every node"),
    "node": ("node", "check that this machine has the code, files and Redis of a cluster"),
    "manifest": ("manifest", "print the Kubernetes manifest of a serve config, for KubeRay"),
    "users": ("users", "list, add and remove users of the gateway, and change their passwords"),
    "tokens": ("tokens", "create, list and revoke long-lived tokens of service accounts"),
    "keys": ("keys", "list, rotate and retire the keys that sign access tokens"),
    "audit": ("audit", "show the audit log: logins, resets, refusals and changes"),
    "export": ("records", "write all customer records of the store (STORE_URL) to a file"),
    "import": ("records", "create the customer records of a file in the store (STORE_URL)"),
    "backup": ("backup", "copy the whole embedded store to a file, while the system runs"),
    "restore": ("backup", "replace the store by a backup, while the system does not run"),
    "network": ("network", "import, check and draw the road network of a city"),
    "demand": ("demand", "make routes for a road network from counts at its entries"),
    "evaluate": ("evaluate", "compare controllers and a policy on a city"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors that an operator can meet end in one sentence and exit code 1."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        options = _parser(next(iter(words), None)).parse_args(words)
        options.run(options)
    except ValidationError as error:
        return _fail(f"{_variable(error)} is not valid: {error.errors()[0]['msg']}")
    except (CommandError, InsecureSettingsError, StoreError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt as interrupt:
        return _fail(str(interrupt), code=130) if interrupt.args else 130
    return 0


def _fail(sentence: str, code: int = 1) -> int:
    Console(stderr=True, highlight=False, soft_wrap=True).print(sentence, style="red", markup=False)
    return code


def _variable(error: ValidationError) -> str:
    """Return the first environment variable that :class:`Settings` refuses."""
    return "_".join(map(str, error.errors()[0]["loc"])).upper()


def _parser(called: str | None) -> argparse.ArgumentParser:
    """Return a parser that knows every command, and the arguments of the called one."""
    parser = argparse.ArgumentParser(
        prog="greenwave", description="Start, stop and operate the services."
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
