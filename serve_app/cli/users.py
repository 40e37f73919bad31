"""``greenwave users``: who may log in at the gateway."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable

from deployments.access.claims import ALL, SCOPES
from deployments.gateway.users import UserError, Users
from deployments.store import open_store
from serve_app.cli.operator_audit import note_change
from serve_app.errors import CommandError
from serve_app.identity.first_user import forget_first_user
from serve_app.processes.ports import add_port_base
from serve_app.settings import Settings

Work = Callable[[Users], Awaitable[str]]
"""Does what it is asked; returns what was changed, empty for nothing."""

_NOTED = {
    "add": "added",
    "passwd": "got another password",
    "scopes": "got other scopes",
    "remove": "removed",
}


def add_users(users: argparse.ArgumentParser) -> None:
    actions = users.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, work: Callable[[argparse.Namespace], Work], help: str) -> None:
        added = actions.add_parser(name, help=help, description=help)
        add_port_base(added)
        if name != "list":
            added.add_argument("name", help="user name")

        def run(options: argparse.Namespace) -> None:
            settings = Settings.of_instance(options.port_base)
            url = settings.resolved_store_url if name == "add" else settings.existing_store_url()
            try:
                asyncio.run(_with_users(url, work(options), f"user {_NOTED.get(name)}"))
            except UserError as error:
                raise CommandError(str(error)) from error
            if name in ("passwd", "remove"):
                forget_first_user(settings.data_dir, options.name)

        added.set_defaults(run=run)

    def with_scopes(name: str, number: str) -> None:
        help = f"what the user may do: {', '.join(SCOPES)} (default: all)"
        actions.choices[name].add_argument("scopes", nargs=number, metavar="SCOPE", help=help)

    password_help = "; the password is asked for, or read from standard input"
    action("add", _add, "add a user" + password_help)
    action(
        "passwd", _passwd, "change a user's password, and revoke the user's tokens" + password_help
    )
    action("scopes", _scopes, "change what a user may do, and revoke the user's tokens")
    action("remove", _remove, "remove a user and revoke the user's tokens")
    action("list", _list, "list the users, and what those may do who may not do everything")
    with_scopes("add", "*")
    with_scopes("scopes", "+")


async def _with_users(store_url: str, work: Work, event: str) -> None:
    store = open_store(store_url)
    try:
        changed = await work(Users(store))
        if changed:
            await note_change(store, event, changed)
    finally:
        await store.close()


def _add(options: argparse.Namespace) -> Work:
    password = read_password()
    scopes = options.scopes or SCOPES
    added = f"Added '{options.name}'."
    noted = f"{options.name}: {' '.join(scopes)}"
    return lambda users: _tell(users.add(options.name, password, scopes), added, noted)


def _passwd(options: argparse.Namespace) -> Work:
    password = read_password()
    changed = f"Changed the password of '{options.name}'."
    return lambda users: _tell(users.set_password(options.name, password), changed, options.name)


def _scopes(options: argparse.Namespace) -> Work:
    changed = f"Changed what '{options.name}' may do."
    noted = f"{options.name}: {' '.join(options.scopes)}"
    return lambda users: _tell(users.set_scopes(options.name, options.scopes), changed, noted)


def _remove(options: argparse.Namespace) -> Work:
    removed = f"Removed '{options.name}'."
    return lambda users: _tell(users.remove(options.name), removed, options.name)


def _list(options: argparse.Namespace) -> Work:
    async def write(users: Users) -> str:
        for name, scopes in (await users.scopes()).items():
            limited = "" if set(scopes) == ALL else f"  {' '.join(scopes)}"
            sys.stdout.write(f"{name}{limited}\n")
        return ""

    return write


async def _tell(work: Awaitable[None], success: str, noted: str) -> str:
    await work
    sys.stdout.write(f"{success}\n")
    return noted


def read_password() -> str:
    """Ask for a password twice on a terminal, or read the first line of standard input.

    It is never an argument: those show in the list of processes.

    Raises:
        UserError: the two passwords differ.
    """
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Once more: ") != password:
        raise UserError("The two passwords differ.")
    return password
