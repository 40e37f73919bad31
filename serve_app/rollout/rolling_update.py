"""The way from one config to another, one application at a time: replicas that start all at once
leave those that serve no processor to serve with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Config = dict[str, Any]


def steps(before: Config | None, after: Config) -> Iterator[tuple[str | None, Config]]:
    """Yield configs to deploy, each with the name of the application that is another than before.

    The last is ``after``, without a name. It is the only one where applications come, go or move
    to other routes.
    """
    now = {each["name"]: each for each in (before or after)["applications"]}
    if before and _routes(before) == _routes(after):
        changed = [each for each in after["applications"] if each != now[each["name"]]]
        for application in changed[:-1]:
            now[application["name"]] = application
            yield application["name"], after | {"applications": list(now.values())}
    yield None, after


def _routes(config: Config) -> dict[str, str | None]:
    return {each["name"]: each.get("route_prefix") for each in config["applications"]}
