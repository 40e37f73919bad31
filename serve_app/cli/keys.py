"""``greenwave keys``: the keys that sign access tokens, and their rotation."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from deployments.access.keys import ALGORITHMS, InvalidKeysError, Key, Keys, new_key
from deployments.access.service_tokens import ServiceTokens
from deployments.store import Store
from serve_app.cli.arguments import add_action, add_json
from serve_app.cli.opened_store import record_change, with_store
from serve_app.cli.terminal import write_rows
from serve_app.errors import CommandError
from serve_app.identity.keys import ConfiguredKeys, key_file, locked_keys, write_key_file
from serve_app.settings import Settings

AFTER_S = 60.0  # replicas read the file every second; clients ask for public keys every 15 s
SKEW_S = 60.0  # between the clocks of two nodes


def add_keys(keys: argparse.ArgumentParser) -> None:
    actions = keys.add_subparsers(required=True, metavar="ACTION")
    listed = "list the keys: name, algorithm, and when each signs and verifies"
    add_json(add_action(actions, "list", _list, listed))
    help = "create a key; the ones before verify until their tokens expire"
    rotate = add_action(actions, "rotate", _rotate, help)
    algorithm = "of the new key (default: that of the one that signs now)"
    rotate.add_argument("--algorithm", choices=ALGORITHMS, help=algorithm)
    after = "seconds until it signs, in which every node must get the file (default: 60)"
    rotate.add_argument("--after", type=_seconds, default=AFTER_S, help=after)
    help = "refuse a key's tokens from now on, because others may know the key"
    retire = add_action(actions, "retire", _retire, help)
    retire.add_argument("kid", help="name of the key, as 'list' shows it")


def _list(options: argparse.Namespace) -> None:
    now = time.time()
    keys = ConfiguredKeys(Settings.of_instance(options.port_base))()
    signing = keys.signing(now)
    listed = [
        {
            "kid": key.kid,
            "algorithm": key.algorithm,
            "state": "signs" if key is signing else _state(key, now),
        }
        for key in sorted(keys, key=lambda key: key.signs_from)
    ]
    line = "{kid}  {algorithm:<5}  {state}".format_map
    write_rows(listed, line, as_json=options.json)


def _rotate(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    with _changing(settings) as present:
        now = time.time()
        algorithm = options.algorithm or present.signing(now).algorithm
        new = new_key(algorithm, math.floor(now + options.after))
        end = new.signs_from + settings.jwt_expiration_minutes * 60 + SKEW_S
        # a key that would sign later than the new one has signed nothing yet
        keys = [k for k in present if k.verifies_until > now and k.signs_from <= new.signs_from]
        ends = _ends_of_service_tokens(settings)
        lasts = {key.kid: max(end, ends.get(key.kid, end)) for key in keys}
        kept = [replace(k, verifies_until=min(k.verifies_until, lasts[k.kid])) for k in keys]
        path = write_key_file(settings, [*kept, new])
    sys.stdout.write(
        f"Created the key {new.kid} ({new.algorithm}).\n"
        f"It signs from {_moment(new.signs_from)} on: copy {path} to every node before that.\n"
    )
    _record(settings, "key made", f"{new.kid} ({new.algorithm})")


def _retire(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    with _changing(settings) as present:
        keys = list(present)
        if options.kid not in (key.kid for key in keys):
            raise CommandError(f"There is no key '{options.kid}'.")
        remaining = [key for key in keys if key.kid != options.kid]
        if not _sign_as_long(remaining, keys, time.time()):
            raise CommandError(
                "No other key signs now and continues to. "
                "Create one with `greenwave keys rotate --after 0`."
            )
        path = write_key_file(settings, remaining)
    sys.stdout.write(f"Retired '{options.kid}'. Copy {path} to every node.\n")
    _record(settings, "key retired", options.kid)


@contextmanager
def _changing(settings: Settings) -> Iterator[Keys]:
    try:
        with locked_keys(settings) as keys:
            yield keys
    except (InvalidKeysError, OSError) as error:
        raise CommandError(f"{key_file(settings)} has not been changed: {error}.") from error


def _ends_of_service_tokens(settings: Settings) -> dict[str, float]:
    if (path := settings.embedded_store) is not None and not path.exists():
        return {}  # nothing has run here yet
    url = settings.resolved_store_url
    return with_store(url, lambda store: ServiceTokens(store).ends_of_keys())


def _record(settings: Settings, event: str, detail: str) -> None:
    async def record(store: Store) -> None:
        await record_change(store, event, detail)

    with_store(settings.resolved_store_url, record)


def _sign_as_long(remaining: list[Key], keys: list[Key], now: float) -> bool:
    """Return whether a remaining key signs now, and one verifies for as long as any did before.

    A key with a successor ends: without the successor, every login would fail from then on.
    """
    try:
        Keys(remaining).signing(now)
    except InvalidKeysError:
        return False
    return max(k.verifies_until for k in remaining) >= max(k.verifies_until for k in keys)


def _state(key: Key, now: float) -> str:
    if key.signs_from > now:
        return f"signs from {_moment(key.signs_from)} on"
    if key.verifies_until <= now:
        return "expired"
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
