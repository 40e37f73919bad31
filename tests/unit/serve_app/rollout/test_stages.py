"""Stages of a start of Ray, and steps of a rolling update."""

from __future__ import annotations

from typing import Any

import pytest

from load_tests.harness.shipped import shipped_config
from serve_app.rollout.stages import Config, minimal, rolling_update, staged_startup


def config(**deployment: object) -> dict[str, Any]:
    flow = {"name": "flow", "import_path": "serve_app.flow:build"}
    return {"applications": [{**flow, "deployments": [{"name": "Flow", **deployment}]}]}


@pytest.mark.parametrize(
    ("shipped", "smallest"),
    [
        ({"num_replicas": 3}, {"num_replicas": 1}),
        ({"num_replicas": 0}, {"num_replicas": 0}),
        (
            {"autoscaling_config": {"min_replicas": 2, "initial_replicas": 3, "max_replicas": 4}},
            {"autoscaling_config": {"min_replicas": 1, "max_replicas": 1}},
        ),
        (
            {"autoscaling_config": {"min_replicas": 0}},
            {"autoscaling_config": {"min_replicas": 0, "max_replicas": 1}},
        ),
        ({"num_replicas": "auto"}, {"num_replicas": "auto"}),
        ({}, {}),
    ],
)
def test_an_application_starts_with_one_replica(shipped, smallest):
    (before,), (after,) = (config(**each)["applications"] for each in (shipped, smallest))
    assert minimal(before) == after
    assert [before] == config(**shipped)["applications"]


def test_decisions_start_before_the_whole_config():
    shipped = shipped_config()
    (first, whole) = staged_startup(shipped)
    assert [each["name"] for each in first["applications"]] == ["inference", "gateway"]
    assert first["applications"] == [minimal(each) for each in shipped["applications"][:2]]
    assert whole == shipped


def versioned(front: int = 8100, **versions: int) -> Config:
    applications = [{"name": name, "args": {"version": n}} for name, n in versions.items()]
    return {"applications": applications, "http_options": {"port": front}}


@pytest.mark.parametrize(
    "before",
    [None, versioned(a=2, b=2), versioned(a=1, b=2), versioned(a=1), versioned(a=1, b=1, c=1)],
    ids=["nothing", "the same", "one changed", "one added", "one removed"],
)
def test_any_other_change_is_one_step(before):
    after = versioned(a=2, b=2)
    assert list(rolling_update(before, after)) == [(None, after)]


def test_routes_change_in_one_step():
    before, after = versioned(a=1, b=1), versioned(a=2, b=2)
    crossed = zip(before["applications"], reversed(after["applications"]), strict=True)
    for route, (one, other) in enumerate(crossed):
        one["route_prefix"] = other["route_prefix"] = f"/{route}"
    assert list(rolling_update(before, after)) == [(None, after)]
