"""From one config to another, one application at a time."""

from __future__ import annotations

from typing import Any

import pytest

from serve_app.rollout.rolling_update import Config, steps


def config(front: int = 8100, **versions: int) -> Config:
    applications = [{"name": name, "args": {"version": n}} for name, n in versions.items()]
    return {"applications": applications, "http_options": {"port": front}}


def versions(config: Config) -> dict[str, Any]:
    return {each["name"]: each["args"]["version"] for each in config["applications"]}


def test_each_changed_application_has_a_step_of_its_own():
    before, after = config(a=1, b=1, c=1, d=1), config(front=8200, a=2, b=1, c=2, d=2)
    way = list(steps(before, after))
    assert [(name, versions(step)) for name, step in way] == [
        ("a", {"a": 2, "b": 1, "c": 1, "d": 1}),
        ("c", {"a": 2, "b": 1, "c": 2, "d": 1}),
        (None, versions(after)),
    ]
    assert way[-1][1] == after
    assert {step["http_options"]["port"] for _, step in way} == {8200}
    assert (before, after) == (config(a=1, b=1, c=1, d=1), config(front=8200, a=2, b=1, c=2, d=2))


@pytest.mark.parametrize(
    "before",
    [None, config(a=2, b=2), config(a=1, b=2), config(a=1), config(a=1, b=1, c=1)],
    ids=["nothing", "the same", "one changed", "one comes", "one goes"],
)
def test_otherwise_there_is_one_step(before):
    after = config(a=2, b=2)
    assert list(steps(before, after)) == [(None, after)]


def test_routes_move_at_once():
    before, after = config(a=1, b=1), config(a=2, b=2)
    crossed = zip(before["applications"], reversed(after["applications"]), strict=True)
    for route, (one, other) in enumerate(crossed):
        one["route_prefix"] = other["route_prefix"] = f"/{route}"
    assert list(steps(before, after)) == [(None, after)]
