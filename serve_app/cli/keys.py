"""``greenwave keys``: the keys that sign access tokens, and how a new one takes its place."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from deployments.access.keys import ALGORITHMS, InvalidKeysError, Key, Keys, new_key
from deployments.access.service_tokens import ServiceTokens
from deployments.store import open_store
from serve_app.cli.operator_audit import note
from serve_app.errors import CommandError
from serve_app.identity.key_ring import (
    ConfiguredKeys,
    changing_keys,
    key_file,
    write_key_file,
)
from serve_app.processes.ports import add_port_base
from serve_app.settings import Settings

AFTER_S = 60.0  # replicas read the file every second; who asks for public keys, every 15 s
SKEW_S = 60.0  # the longest that two nodes' clocks may be said to differ


def add_keys(keys: argparse.ArgumentParser) -> None:
    actions = keys.add_subparsers(required=True, metavar="ACTION")

    help = "list the keys: name, algorithm, and when each signs and verifies"
    listed = actions.add_parser("list", help=help, description=help)
    listed.set_defaults(run=_list)

    help = "make a new key; the ones before verify until their tokens end"
    rotated = actions.add_parser("rotate", help=help, description=help)
    algorithm = "of the new key (default: that of the one that signs now)"
    rotated.add_argument("--algorithm", choices=ALGORITHMS, help=algorithm)
    after = "seconds until it signs, in which every node must get the file (default: 60)"
    rotated.add_argument("--after", type=_seconds, default=AFTER_S, help=after)
    rotated.set_defaults(run=_rotate)

    help = "refuse a key's tokens from now on: for one that is known to others"
    retired = actions.add_parser("retire", help=help, description=help)
    retired.add_argument("kid", help="name of the key, as 'list' shows it")
    retired.set_defaults(run=_retire)

    for each in (listed, rotated, retired):
        add_port_base(each)


def _list(options: argparse.Namespace) -> None:
    now = time.time()
    keys = ConfiguredKeys(Settings.of_instance(options.port_base))()
    signing = keys.signing(now)
    for key in sorted(keys, key=lambda key: key.signs_from):
        state = "signs" if key is signing else _state(key, now)
        sys.stdout.write(f"{key.kid}  {key.algorithm:<5}  {state}\n")


def _rotate(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    with _changing(settings) as present:
        now = time.time()
        algorithm = options.algorithm or present.signing(now).algorithm
        new = new_key(algorithm, math.floor(now + options.after))
        end = new.signs_from + settings.jwt_expiration_minutes * 60 + SKEW_S
        # one that would begin to sign later than the new one has signed nothing yet
        keys = [k for k in present if k.verifies_until > now and k.signs_from <= new.signs_from]
        ends = asyncio.run(_ends_of_service_tokens(settings))
        kept = [_ending(key, max(end, ends.get(key.kid, end))) for key in keys]
        path = _write(settings, [*kept, new])
    sys.stdout.write(
        f"Made the key {new.kid} ({new.algorithm}); it signs from {_moment(new.signs_from)} on.\n"
        f"{path} has the keys now: copy it to every node before that.\n"
    )
    note(settings, "key made", f"{new.kid} ({new.algorithm})")


@contextlib.contextmanager
def _changing(settings: Settings) -> Iterator[Keys]:
    with contextlib.ExitStack() as stack:
        try:
            present = stack.enter_context(changing_keys(settings))
        except OSError as error:
            raise CommandError(f"{key_file(settings)} was left as it is: {error}.") from error
        yield present


async def _ends_of_service_tokens(settings: Settings) -> dict[str, float]:
    url = settings.resolved_store_url
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        return {}  # nothing has run here yet
    store = open_store(url)
    try:
        return await ServiceTokens(store).ends_of_keys()
    finally:
        await store.close()


def _ending(key: Key, at: float) -> Key:
    """Have a key verify until then, or for as long as was said before if that is shorter."""
    return replace(key, verifies_until=min(key.verifies_until, at))


def _retire(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    with _changing(settings) as present:
        keys = list(present)
        if options.kid not in (key.kid for key in keys):
            raise CommandError(f"There is no key '{options.kid}'.")
        remaining = [key for key in keys if key.kid != options.kid]
        if not _sign_as_long(remaining, keys, time.time()):
            raise CommandError(
                "No other key signs now and goes on to; "
                "`greenwave keys rotate --after 0` makes one that does."
            )
        path = _write(settings, remaining)
    sys.stdout.write(f"Retired '{options.kid}'. {path} has the keys now: copy it to every node.\n")
    note(settings, "key retired", options.kid)


def _sign_as_long(remaining: list[Key], keys: list[Key], now: float) -> bool:
    """Whether one of them signs now, and one verifies for as long as any did before.

    A key that has a successor ends: without the successor, nobody could log in from then on.
    """
    try:
        Keys(remaining).signing(now)
    except InvalidKeysError:
        return False
    return max(k.verifies_until for k in remaining) >= max(k.verifies_until for k in keys)


def _write(settings: Settings, keys: list[Key]) -> str:
    path = key_file(settings)
    try:
        write_key_file(path, keys)
    except (InvalidKeysError, OSError) as error:
        raise CommandError(f"{path} was left as it is: {error}.") from error
    return str(path)


def _state(key: Key, now: float) -> str:
    if key.signs_from > now:
        return f"signs from {_moment(key.signs_from)} on"
    if key.verifies_until <= now:
        return "ended"
    return f"verifies until {_moment(key.verifies_until)}"


def _moment(seconds: float) -> str:
    if math.isinf(seconds):
        return "its successor signs"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 30 * 24 * 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to 30 days")
    return seconds
