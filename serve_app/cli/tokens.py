"""``greenwave tokens``: long-lived tokens for controllers and other machines."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from deployments.access.claims import SCOPES
from deployments.access.service_tokens import ServiceTokenError, ServiceTokens
from deployments.store import Store, open_store
from serve_app.cli.operator_audit import note_change
from serve_app.errors import CommandError
from serve_app.identity.key_ring import ConfiguredKeys
from serve_app.processes.ports import add_port_base
from serve_app.settings import Settings

Work = Callable[[ServiceTokens, Store], Awaitable[None]]


def add_tokens(tokens: argparse.ArgumentParser) -> None:
    actions = tokens.add_subparsers(required=True, metavar="ACTION")

    help = "make a token for a service account, and write it to standard output, once"
    created = actions.add_parser("create", help=help, description=help)
    created.add_argument("name", help="of the service account, such as a controller's")
    scopes = f"what it allows: {', '.join(SCOPES)} (default: act)"
    created.add_argument("scopes", nargs="*", metavar="SCOPE", help=scopes)
    created.add_argument("--days", type=int, default=365, help="until it expires (default: 365)")
    created.set_defaults(run=_create)

    help = "list the tokens that have not expired"
    listed = actions.add_parser("list", help=help, description=help)
    listed.set_defaults(run=_list)

    help = "revoke a token, or all of a service account, within five seconds"
    revoked = actions.add_parser("revoke", help=help, description=help)
    revoked.add_argument("which", help="the token's id, as 'list' shows it, or the account's name")
    revoked.set_defaults(run=_revoke)

    for each in (created, listed, revoked):
        add_port_base(each)


def _create(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    keys = ConfiguredKeys(settings)()

    async def create(tokens: ServiceTokens, store: Store) -> None:
        scopes = options.scopes or ["act"]
        token_id, token = await tokens.create(keys, options.name, options.days, scopes)
        sys.stderr.write(
            f"Made the token {token_id} of '{options.name}'. Nobody can show it again:\n"
        )
        sys.stdout.write(f"{token}\n")
        allowed = f"{token_id} of {options.name}: {' '.join(scopes)}, {options.days} days"
        await note_change(store, "token made", allowed)

    _with_tokens(settings.resolved_store_url, create)


def _list(options: argparse.Namespace) -> None:
    async def write(tokens: ServiceTokens, store: Store) -> None:
        for token_id, token in (await tokens.all()).items():
            state = f"revoked {_day(token.revoked_at)}" if token.revoked_at else "counts"
            until = f"{_day(token.created_at)} to {_day(token.expires_at)}"
            sys.stdout.write(
                f"{token_id}  {token.name}  {' '.join(token.scopes)}  {until}  {state}\n"
            )

    _with_tokens(Settings.of_instance(options.port_base).existing_store_url(), write)


def _revoke(options: argparse.Namespace) -> None:
    async def revoke(tokens: ServiceTokens, store: Store) -> None:
        count = await tokens.revoke(options.which)
        sys.stdout.write(f"Revoked {count} token{'s' if count > 1 else ''}.\n")
        await note_change(store, "token revoked", options.which)

    _with_tokens(Settings.of_instance(options.port_base).existing_store_url(), revoke)


def _with_tokens(store_url: str, work: Work) -> None:
    async def run() -> None:
        store = open_store(store_url)
        try:
            await work(ServiceTokens(store), store)
        finally:
            await store.close()

    try:
        asyncio.run(run())
    except ServiceTokenError as error:
        raise CommandError(str(error)) from error


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
