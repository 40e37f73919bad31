"""``greenwave users``: the users of the gateway, and their scopes."""

from __future__ import annotations

import argparse
import getpass
import sys

from deployments.access.claims import ALL, SCOPES, AccountError, check_scopes
from deployments.gateway.users import Users
from deployments.store import Store
from serve_app.cli.arguments import add_action, add_json
from serve_app.cli.opened_store import change_store, read_store
from serve_app.cli.terminal import Row, write_rows
from serve_app.errors import CommandError
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
    scopes = check_scopes(options.scopes or SCOPES)  # before the password is asked for
    password = _read_password()

    async def add(store: Store) -> None:
        await Users(store).add(options.name, password, scopes)
        sys.stdout.write(f"Added '{options.name}'.\n")

    detail = f"{options.name}: {' '.join(scopes)}"
    change_store(options, add, "user added", detail, may_create=True)


def _passwd(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    settings.existing_store_url()  # raises if it does not exist
    password = _read_password()

    async def change(store: Store) -> None:
        await Users(store).set_password(options.name, password)
        sys.stdout.write(f"Changed the password of '{options.name}'.\n")

    change_store(options, change, "user got another password", options.name)
    delete_first_user_file(settings.data_dir, options.name)


def _scopes(options: argparse.Namespace) -> None:
    async def change(store: Store) -> None:
        await Users(store).set_scopes(options.name, options.scopes)
        sys.stdout.write(f"Changed what '{options.name}' may do.\n")

    detail = f"{options.name}: {' '.join(options.scopes)}"
    change_store(options, change, "user got other scopes", detail)


def _remove(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)

    async def remove(store: Store) -> None:
        users = Users(store)
        may_be_last = options.last or configured_users(settings)
        if not may_be_last and [*await users.scopes()] == [options.name]:
            raise AccountError(
                f"'{options.name}' is the last user, and no login would succeed. Add another with"
                " `greenwave users add NAME` before, or remove this one with --last"
            )
        await users.remove(options.name)
        sys.stdout.write(f"Removed '{options.name}'.\n")

    change_store(options, remove, "user removed", options.name)
    delete_first_user_file(settings.data_dir, options.name)


def _list(options: argparse.Namespace) -> None:
    users = read_store(options, lambda store: Users(store).scopes())
    rows = [{"name": name, "scopes": [*scopes]} for name, scopes in users.items()]
    write_rows(rows, _line, as_json=options.json)


def _line(user: Row) -> str:
    limited = "" if set(user["scopes"]) == ALL else f"  {' '.join(user['scopes'])}"
    return f"{user['name']}{limited}"


def _read_password() -> str:
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
