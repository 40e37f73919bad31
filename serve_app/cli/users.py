"""``greenwave users``: the users of the gateway, and their scopes."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Awaitable, Callable

from deployments.access.claims import ALL, SCOPES, AccountError
from deployments.gateway.users import Users
from deployments.store import Store
from serve_app.cli.arguments import add_action, add_json
from serve_app.cli.stores import record_change, with_store
from serve_app.cli.terminal import write_json
from serve_app.errors import CommandError, as_command_error
from serve_app.identity.first_user import configured_users, delete_first_user_file
from serve_app.settings import Settings


def add_users(users: argparse.ArgumentParser) -> None:
    actions = users.add_subparsers(required=True, metavar="ACTION")
    password = "; the password is prompted for, or read from standard input"
    add = add_action(actions, "add", _add, "add a user" + password)
    passwd = "change a user's password, and revoke the user's tokens"
    change = add_action(actions, "passwd", _passwd, passwd + password)
    scopes_help = "change what a user may do, and revoke the user's tokens"
    scopes = add_action(actions, "scopes", _scopes, scopes_help)
    remove = add_action(actions, "remove", _remove, "remove a user and revoke the user's tokens")
    add_json(
        add_action(actions, "list", _list, "list the users, with their scopes unless they have all")
    )
    remove.add_argument("--last", action="store_true", help="even the last user")
    for action in (add, change, scopes, remove):
        action.add_argument("name", help="user name")
    help = f"what the user may do: {', '.join(SCOPES)} (default: all)"
    add.add_argument("scopes", nargs="*", metavar="SCOPE", help=help)
    scopes.add_argument("scopes", nargs="+", metavar="SCOPE", help=help)


def _add(options: argparse.Namespace) -> None:
    password = read_password()
    scopes = options.scopes or SCOPES
    _change(
        Settings.of_instance(options.port_base).resolved_store_url,
        lambda users: users.add(options.name, password, scopes),
        f"Added '{options.name}'.",
        ("user added", f"{options.name}: {' '.join(scopes)}"),
    )


def _passwd(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    url, password = settings.existing_store_url(), read_password()
    _change(
        url,
        lambda users: users.set_password(options.name, password),
        f"Changed the password of '{options.name}'.",
        ("user got another password", options.name),
    )
    delete_first_user_file(settings.data_dir, options.name)


def _scopes(options: argparse.Namespace) -> None:
    _change(
        Settings.of_instance(options.port_base).existing_store_url(),
        lambda users: users.set_scopes(options.name, options.scopes),
        f"Changed what '{options.name}' may do.",
        ("user got other scopes", f"{options.name}: {' '.join(options.scopes)}"),
    )


def _remove(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)

    async def remove(users: Users) -> None:
        may_be_last = options.last or configured_users(settings)
        if not may_be_last and [*await users.scopes()] == [options.name]:
            raise AccountError(
                f"'{options.name}' is the last user, and no login would succeed. Add another with"
                " `greenwave users add NAME` before, or remove this one with --last"
            )
        await users.remove(options.name)

    _change(
        settings.existing_store_url(),
        remove,
        f"Removed '{options.name}'.",
        ("user removed", options.name),
    )
    delete_first_user_file(settings.data_dir, options.name)


def _change(
    store_url: str,
    change: Callable[[Users], Awaitable[None]],
    success: str,
    recorded: tuple[str, str],
) -> None:
    async def work(store: Store) -> None:
        await change(Users(store))
        sys.stdout.write(f"{success}\n")
        await record_change(store, *recorded)

    with as_command_error(AccountError):
        with_store(store_url, work)


def _list(options: argparse.Namespace) -> None:
    async def write(store: Store) -> None:
        users = (await Users(store).scopes()).items()
        if options.json:
            write_json([{"name": name, "scopes": [*scopes]} for name, scopes in users])
            return
        for name, scopes in users:
            limited = "" if set(scopes) == ALL else f"  {' '.join(scopes)}"
            sys.stdout.write(f"{name}{limited}\n")

    with_store(Settings.of_instance(options.port_base).existing_store_url(), write)


def read_password() -> str:
    """Ask for a password twice on a terminal, or read the first line of standard input.

    It is never an argument: those are visible in the list of processes.

    Raises:
        CommandError: the two passwords differ.
    """
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise CommandError("The two passwords differ.")
    return password
