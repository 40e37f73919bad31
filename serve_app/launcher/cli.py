"""The command line: ``greenwave --help`` lists its commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from deployments.gateway.users import UserError
from deployments.store import StoreError
from serve_app.credentials.signing_key import InsecureSettingsError
from serve_app.launcher import (
    backup_cli,
    deploy_cli,
    records_cli,
    status_cli,
    units_cli,
    up_cli,
    users_cli,
)
from serve_app.launcher.backup_cli import BackupError
from serve_app.launcher.config import InvalidServeConfigError, read_config
from serve_app.launcher.deploy import DeployError
from serve_app.launcher.deploy_cli import DEFAULT_CONFIG
from serve_app.launcher.instance import InstanceError
from serve_app.launcher.records_cli import RecordsTransferError

_USER_ERRORS = (
    InvalidServeConfigError,
    InstanceError,
    DeployError,
    InsecureSettingsError,
    StoreError,
    UserError,
    RecordsTransferError,
    BackupError,
)

console = Console(highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors that a user can meet end in one sentence and exit code 1."""
    options = _parser().parse_args(arguments)
    try:
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="greenwave", description="Start, stop and tend the services."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up_cli.add_command(commands)
    for cli in (status_cli, deploy_cli, units_cli, users_cli, records_cli, backup_cli):
        cli.add_commands(commands)
    help = "check serve configs for unknown keys and wrong values"
    check = commands.add_parser("check", help=help, description=help)
    check.set_defaults(run=_check)
    check.add_argument(
        "config", nargs="*", type=Path, default=[DEFAULT_CONFIG], help="serve configs to check"
    )
    return parser


def _check(options: argparse.Namespace) -> None:
    for path in options.config:
        read_config(path)
        console.print(f"{os.path.relpath(path)}: valid")


if __name__ == "__main__":
    sys.exit(main())
