"""What is deployed first on a Ray that has just started."""

from __future__ import annotations

from typing import Any

import pytest

from load_tests.harness.shipped import shipped_config
from serve_app.rollout.staged_startup import growing, lean


def config(**deployment: object) -> dict[str, Any]:
    flow = {"name": "flow", "import_path": "serve_app.flow:build"}
    return {"applications": [{**flow, "deployments": [{"name": "Flow", **deployment}]}]}


@pytest.mark.parametrize(
    ("shipped", "soonest"),
    [
        ({"num_replicas": 3}, {"num_replicas": 1}),
        ({"num_replicas": 0}, {"num_replicas": 0}),
        (
            {"autoscaling_config": {"min_replicas": 2, "initial_replicas": 3, "max_replicas": 4}},
            {"autoscaling_config": {"min_replicas": 1, "max_replicas": 4}},
        ),
        ({"autoscaling_config": {"min_replicas": 0}}, {"autoscaling_config": {"min_replicas": 0}}),
        ({"num_replicas": "auto"}, {"num_replicas": "auto"}),
        ({}, {}),
    ],
)
def test_the_soonest_config_has_one_replica_of_each(shipped, soonest):
    before = config(**shipped)
    assert lean(before) == config(**soonest)
    assert before == config(**shipped)


def test_a_second_path_to_an_application_comes_later():
    names = [each["name"] for each in shipped_config()["applications"]]
    assert "accounts-alias" in names
    first = [each["name"] for each in lean(shipped_config())["applications"]]
    assert first == [name for name in names if name != "accounts-alias"]


def test_a_config_grows_from_the_first_application_to_the_whole():
    """One replica of each as soon as possible, and then more of one application at a time."""
    shipped = shipped_config()
    (first, soonest, *steps) = list(growing(shipped))
    assert [each["name"] for each in first["applications"]] == ["inference"]
    assert soonest == lean(shipped)
    before = soonest
    for step in steps:
        changed = [each for each in step["applications"] if each not in before["applications"]]
        assert len(changed) == 1
        before = step
    assert before == shipped
    alone = [each for each in shipped["applications"] if each in soonest["applications"]]
    assert [each["name"] for each in alone] == ["console"]
    assert len(steps) == len(shipped["applications"]) - len(alone)


def test_a_config_of_one_replica_is_deployed_once_it_is_complete():
    assert list(growing(config(num_replicas=1))) == [config(num_replicas=1)] * 2
