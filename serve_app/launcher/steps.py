"""The way from one config to another, one application at a time: replicas that start all at once
leave those that serve no processor to serve with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Config = dict[str, Any]


def steps(before: Config | None, after: Config) -> Iterator[tuple[list[str], Config]]:
    """Yield what to deploy, and the applications that are to run before the next step.

    Each config has one more application as it shall be; the last is ``after``. It is the only one
    where applications come, go or move to other routes.
    """
    names = [each["name"] for each in after["applications"]]
    now = {each["name"]: each for each in (before or after)["applications"]}
    if before and _routes(before) == _routes(after):
        changed = [each for each in after["applications"] if each != now[each["name"]]]
        for application in changed[:-1]:
            now[application["name"]] = application
            names.remove(application["name"])
            yield [application["name"]], after | {"applications": list(now.values())}
    yield names, after


def _routes(config: Config) -> dict[str, str | None]:
    return {each["name"]: each.get("route_prefix") for each in config["applications"]}
