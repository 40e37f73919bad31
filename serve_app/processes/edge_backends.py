"""The edge's ways to the replicas: a backend for each application, in HAProxy's configuration.

A city beside the shipped one is an inference service, a gateway, or both, at other paths. It is
reached at the port of the inference service, and its requests go to its replicas directly, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from serve_app.rollout.capacity import INFERENCE
from serve_app.rollout.smoke_test import GATEWAY

MAXCONN = 1000  # requests that a replica works on at once, unless its backend says otherwise
_REPLICAS = """\
backend {name}-replicas from replicas
    option httpchk GET /-/routes
    http-check expect string '"{route}":'
{rules}    server through-serve unix@edge-serve.sock no-check observe none backup
"""
_OF_RUNS = """\
    acl too_many queue({name}-replicas) ge {waiting}
    http-request set-var(txn.code) str(overloaded) if too_many
    http-request tarpit deny_status 503 default-errorfiles if too_many
    # A run stays with a replica, and the default run with one, so that its requests share batches.
    http-request set-var-fmt(txn.run) "run %[req.fhdr(x-simulation-run)]"
    balance hash var(txn.run)
    hash-type consistent djb2 avalanche
    default-server maxconn {at_once}
"""
# What may be repeated; see the template.
_PATHS = {
    INFERENCE: """\
    acl step path {route}/predict_action
    acl change path {route}/reset_hidden
    acl change path_beg {route}/runs/
    acl batch path {route}/predict_actions
    acl infer path {route}/v2/models/policy/infer {route}/v2/models/policy/versions/1/infer
""",
    GATEWAY: """\
    acl step path {route}/traffic/action
    acl change path {route}/traffic/reset
    acl repeatable path {route}/auth/login
""",
}
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # others take Serve's front
_PATH = re.compile(r"(/[A-Za-z0-9_.~-]+)+")
_ELSEWHERE = "/api/", "/density/", "/flow/", "/console/"  # not at the inference service's port
_BACKEND = re.compile(r"(?ms)^backend (\S+-replicas) from .*?'\"(/.*?)\":'(.*?)(?=^\S|\Z)")
_MAXCONN = re.compile(r"default-server maxconn (\d+)")


class City(NamedTuple):
    """An application of another city than the shipped one.

    Attributes:
        kind: its import path.
    """

    name: str
    route: str
    kind: str


class Backend(NamedTuple):
    """Replicas of an application.

    Attributes:
        maxconn: requests that one works on at once.
    """

    route: str
    maxconn: int


def cities_of(config: Mapping[str, Any]) -> tuple[City, ...]:
    """Return the applications of other cities in a serve config, those with longer paths first."""
    cities = []
    for each in config.get("applications", ()):
        city = City(each["name"], each.get("route_prefix") or "/", each["import_path"])
        if city.kind not in _PATHS or f"{city.route}/".startswith(_ELSEWHERE):
            continue
        if _NAME.fullmatch(city.name) and _PATH.fullmatch(city.route):
            cities.append(city)
    return tuple(sorted(cities, key=lambda city: (-len(city.route), city)))


def paths_of(cities: tuple[City, ...]) -> str:
    """Return what names the paths of cities that may be repeated."""
    return "".join(_PATHS[city.kind].format(route=city.route) for city in cities)


def rules_of(cities: tuple[City, ...]) -> str:
    """Return what leads the requests of cities to their replicas."""
    return "".join(
        f"    use_backend city-{city.name}-replicas if {{ var(txn.way) -m found }}"
        f" {{ path_beg {city.route}/ }}\n"
        for city in cities
    )


def replicas_backend(name: str, route: str, **of_runs: int) -> str:
    """Return the backend of an application's replicas.

    Args:
        of_runs: bounds of an inference service: ``at_once`` and ``waiting``.
    """
    rules = _OF_RUNS.format(name=name, **of_runs) if of_runs else ""
    return _REPLICAS.format(name=name, route=route, rules=rules)


def backends_in(config: str) -> dict[str, Backend]:
    """Return the backends of replicas in a configuration, by name."""
    found = {}
    for name, route, rules in _BACKEND.findall(config):
        maxconn = _MAXCONN.search(rules)
        found[name] = Backend(route, int(maxconn[1]) if maxconn else MAXCONN)
    return found
