"""``greenwave users``: who may log in at the gateway."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable

from deployments.gateway.users import UserError, Users
from deployments.store import open_store
from serve_app.credentials.first_user import forget_first_user
from serve_app.launcher.command_error import CommandError
from serve_app.launcher.ports import add_port_base
from serve_app.settings import Settings

Work = Callable[[Users], Awaitable[None]]


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
                asyncio.run(_with_users(url, work(options)))
            except UserError as error:
                raise CommandError(str(error)) from error
            if name in ("passwd", "remove"):
                forget_first_user(settings.data_dir, options.name)

        added.set_defaults(run=run)

    password_help = "; the password is asked for, or read from standard input"
    action("add", _add, "add a user" + password_help)
    action("passwd", _passwd, "change a user's password" + password_help)
    action("remove", _remove, "remove a user; tokens already issued stay valid until they expire")
    action("list", _list, "list the users")


async def _with_users(store_url: str, work: Work) -> None:
    store = open_store(store_url)
    try:
        await work(Users(store))
    finally:
        await store.close()


def _add(options: argparse.Namespace) -> Work:
    password = read_password()
    return lambda users: _tell(users.add(options.name, password), f"Added '{options.name}'.")


def _passwd(options: argparse.Namespace) -> Work:
    password = read_password()
    changed = f"Changed the password of '{options.name}'."
    return lambda users: _tell(users.set_password(options.name, password), changed)


def _remove(options: argparse.Namespace) -> Work:
    return lambda users: _tell(users.remove(options.name), f"Removed '{options.name}'.")


def _list(options: argparse.Namespace) -> Work:
    async def write(users: Users) -> None:
        sys.stdout.writelines(f"{name}\n" for name in await users.names())

    return write


async def _tell(work: Awaitable[None], success: str) -> None:
    await work
    sys.stdout.write(f"{success}\n")


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
