"""``greenwave tokens``: long-lived tokens for controllers and other machines."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict

from deployments.access.claims import SCOPES
from deployments.access.service_tokens import ServiceTokens
from deployments.store import Store
from serve_app.cli.arguments import add_action, add_json
from serve_app.cli.opened_store import change_store, read_store
from serve_app.cli.terminal import Row, write_rows
from serve_app.identity.keys import ConfiguredKeys
from serve_app.settings import Settings


def add_tokens(tokens: argparse.ArgumentParser) -> None:
    actions = tokens.add_subparsers(required=True, metavar="ACTION")
    help = "create a token for a service account, and write it to standard output, once"
    create = add_action(actions, "create", _create, help)
    create.add_argument("name", help="of the service account, such as a controller's")
    scopes = f"what it allows: {', '.join(SCOPES)} (default: act)"
    create.add_argument("scopes", nargs="*", metavar="SCOPE", help=scopes)
    create.add_argument("--days", type=int, default=365, help="until it expires (default: 365)")
    add_json(add_action(actions, "list", _list, "list the tokens that have not expired"))
    help = "revoke a token, or all of a service account, within five seconds"
    revoke = add_action(actions, "revoke", _revoke, help)
    revoke.add_argument("which", help="the token's id, as 'list' shows it, or the account's name")


def _create(options: argparse.Namespace) -> None:
    keys = ConfiguredKeys(Settings.of_instance(options.port_base))()
    scopes = options.scopes or ["act"]

    async def create(store: Store) -> None:
        created = ServiceTokens(store).create(keys, options.name, options.days, scopes)
        token_id, token = await created
        sys.stderr.write(f"Created the token {token_id} of '{options.name}', shown only once:\n")
        sys.stdout.write(f"{token}\n")

    detail = f"{options.name}: {' '.join(scopes)}, {options.days} days"
    change_store(options, create, "token made", detail, may_create=True)


def _list(options: argparse.Namespace) -> None:
    tokens = read_store(options, lambda store: ServiceTokens(store).all())
    rows = [{"id": token_id, **asdict(token)} for token_id, token in tokens.items()]
    write_rows(rows, _line, as_json=options.json)


def _line(token: Row) -> str:
    state = f"revoked {_day(token['revoked_at'])}" if token["revoked_at"] else "valid"
    until = f"{_day(token['created_at'])} to {_day(token['expires_at'])}"
    return f"{token['id']}  {token['name']}  {' '.join(token['scopes'])}  {until}  {state}"


def _revoke(options: argparse.Namespace) -> None:
    async def revoke(store: Store) -> None:
        count = await ServiceTokens(store).revoke(options.which)
        sys.stdout.write(f"Revoked {count} token{'s' if count > 1 else ''}.\n")

    change_store(options, revoke, "token revoked", options.which)


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
