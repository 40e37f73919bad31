"""The command line: ``greenwave --help`` lists its commands.

A command's module is imported when the command is called, so that code that does not import never
prevents another command: a system must be stoppable.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import NamedTuple

import httpx
import shtab
from pydantic import ValidationError

from serve_app.cli.folder import apply_environment
from serve_app.cli.terminal import notes
from serve_app.errors import PACKAGES, CommandError, is_of_import, place
from serve_app.settings import Settings, usual_data_dir


class Command(NamedTuple):
    """A command.

    Attributes:
        module: of ``serve_app.cli``; its ``add_NAME``, of the last word of the command, adds
            arguments, and sets ``run``, a function of them.
        help: one line.
        example: of its use.
    """

    module: str
    help: str
    example: str


COMMANDS = {
    "init": Command(
        "folder",
        "write serve_config.yaml and an example of .env into this folder, or the config of a city",
        "--network city.json --policy agent.th",
    ),
    "up": Command(
        "up", "start and supervise Ray and the edge, and deploy the config", "--port-base 23000"
    ),
    "down": Command("status", "stop what 'up' started", ""),
    "status": Command(
        "status", "show what runs, since when, and how often it was restarted", "--json"
    ),
    "deploy": Command(
        "deploy",
        "deploy a config and the present code while the old version serves",
        "--dry-run serve_config.yaml",
    ),
    "rollback": Command("deploy", "deploy the config before the present one again", ""),
    "check": Command(
        "deploy", "check serve configs for unknown keys and wrong values", "serve_config.yaml"
    ),
    "canary": Command(
        "canary",
        "run a policy beside the one in service, on some runs or as a shadow",
        "start /srv/agent.th --share 10%",
    ),
    "demo": Command(
        "demo",
        "simulate an hour of traffic that the running system controls",
        "--begin 17:00 --seconds 1800",
    ),
    "grpc": Command(
        "grpc",
        "answer the Open Inference Protocol over gRPC, from a running inference service",
        "--url http://127.0.0.1:8000 --port 8033",
    ),
    "cluster environment": Command(
        "cluster", "print the variables that `ray start` needs on every node", "> ray.env"
    ),
    "cluster node": Command(
        "cluster",
        "check that this machine has the code, files and Redis of a cluster",
        "--cluster http://10.0.0.11:8265",
    ),
    "cluster manifest": Command(
        "cluster",
        "print the Kubernetes manifest of a serve config, for KubeRay",
        "--image greenwave:1.0.0 | kubectl apply -f -",
    ),
    "users": Command(
        "users",
        "list, add and remove users of the gateway, and change their passwords",
        "add ana read",
    ),
    "tokens": Command(
        "tokens",
        "create, list and revoke long-lived tokens of service accounts",
        "create controller act",
    ),
    "keys": Command("keys", "list, rotate and retire the keys that sign access tokens", "rotate"),
    "audit": Command(
        "audit",
        "show the audit log: logins, resets, refusals and changes",
        "--log refusals --limit 20",
    ),
    "store export": Command(
        "store", "write all customer records of the store (STORE_URL) to a file", "records.jsonl"
    ),
    "store import": Command(
        "store", "create the customer records of a file in the store (STORE_URL)", "records.jsonl"
    ),
    "store backup": Command(
        "store", "copy the whole embedded store to a file, while the system runs", "greenwave.bak"
    ),
    "store restore": Command(
        "store", "replace the store by a backup, while the system does not run", "greenwave.bak"
    ),
    "network": Command(
        "network",
        "import, check and draw the road network of a city",
        "import town.net.xml --output town.json",
    ),
    "lab demand": Command(
        "lab",
        "make routes for a road network from counts at its entries",
        "town.net.xml --entries entries.csv --output town.rou.xml",
    ),
    "lab evaluate": Command(
        "lab",
        "compare controllers and a policy on a city",
        "--network town.json --sumocfg town.sumocfg --output report",
    ),
    "lab shadow": Command(
        "shadow",
        "log recommendations beside an existing controller, report on them, and export events",
        "record shadow.jsonl --records records.jsonl",
    ),
}
GROUPS = {
    "cluster": "prepare the machines of a cluster that is not supervised here",
    "store": "back up, restore, export and import what the store has",
    "lab": "evaluate controllers in simulation, and beside an existing controller",
}
RENAMED = {name.split()[-1]: name for name in COMMANDS if " " in name}
"""New names of commands, by the old ones, which work until the next release."""
EXIT_CODES = (
    "Exit codes: 0 done; 1 refused or failed, with the reason on stderr; 2 usage; 130 Ctrl-C."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors that an operator can meet end in one sentence and exit code 1."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if renamed := RENAMED.get("".join(words[:1])):
        notes.print(f"`greenwave {words[0]}` is now `greenwave {renamed}`.", style="yellow")
        words[:1] = renamed.split()
    try:
        apply_environment()
        options = parser_of(words[0] if words else "", " ".join(words[:2])).parse_args(words)
        options.run(options)
    except KeyboardInterrupt as interrupt:
        return _fail(str(interrupt), code=130) if interrupt.args else 130
    except Exception as error:
        sentence = _in_words(error)
        if not sentence:
            raise
        return _fail(sentence)
    return 0


def _fail(sentence: str, code: int = 1) -> int:
    notes.print(sentence, style="red")
    return code


def _in_words(error: Exception) -> str:
    """Return a sentence for the operator; empty for a defect, whose traceback is shown.

    The messages of all errors that this project defines are for operators.
    """
    if isinstance(error, CommandError):
        return str(error)
    if is_of_import(error):
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        return f"Cannot import {place(error)}: {type(error).__name__}: {reason}"
    if isinstance(error, ValidationError):
        return _invalid(error)
    if type(error).__module__.partition(".")[0] in (*PACKAGES, "greenwave"):
        return f"{str(error).rstrip('.')}."
    if isinstance(error, httpx.HTTPError):
        return f"A call of {error.request.url} failed: {error}."
    return _file_error(error) if isinstance(error, OSError) else ""


def _file_error(error: OSError) -> str:
    if not error.filename:
        return str(error)
    advice = ""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        advice = ". Use a folder that you can write to"
        data_dir = Path(os.environ.get("DATA_DIR") or usual_data_dir()).absolute()
        if Path(error.filename).absolute().is_relative_to(data_dir):
            advice += "; DATA_DIR sets the data folder"
    return f"{error.filename}: {error.strerror}{advice}"


def _invalid(error: ValidationError) -> str:
    """Name what is not valid: an environment variable, if :class:`Settings` refuses it."""
    (first, *_) = error.errors()
    if error.title == Settings.__name__:
        return f"{'_'.join(map(str, first['loc'])).upper()} is not valid: {first['msg']}"
    return f"{'.'.join(map(str, first['loc']))} of {error.title} is not valid: {first['msg']}"


def parser_of(*called: str) -> argparse.ArgumentParser:
    """Return a parser that knows every command, and the arguments of those that are called.

    Args:
        called: names, such as ``up`` and ``store backup``.
    """
    parser = argparse.ArgumentParser(
        prog="greenwave",
        description="Start, stop and operate the services.",
        epilog=f"Example: greenwave up. {EXIT_CODES}",
    )
    version = f"greenwave {metadata.version('greenwave')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    groups = {
        name: commands.add_parser(name, help=help, description=help).add_subparsers(
            required=True, metavar="COMMAND"
        )
        for name, help in GROUPS.items()
    }
    for name, (module, help, example) in COMMANDS.items():
        group, _, verb = name.rpartition(" ")
        epilog = f"Example: greenwave {name} {example}".rstrip()
        home = groups.get(group, commands)
        command = home.add_parser(verb, help=help, description=help, epilog=epilog)
        if name in called:
            code = import_module(f"serve_app.cli.{module}")
            getattr(code, f"add_{verb}")(command)
    help = "print a script that completes commands and options in a shell"
    completion = commands.add_parser("completion", help=help, description=help)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.set_defaults(run=_complete)
    return parser


def _complete(options: argparse.Namespace) -> None:
    print(shtab.complete(parser_of(*COMMANDS), options.shell))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
