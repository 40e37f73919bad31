"""What a config needs is counted as Serve will count it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ray.serve._private.config import DeploymentConfig

from load_tests.harness.shipped import ROOT, shipped_config
from serve_app.rollout import resources
from serve_app.rollout.resources import Need, Scale, least, most, needs, scales, surge


def config(*deployments: dict[str, Any], **inference: object) -> dict[str, Any]:
    applications: list[dict[str, Any]] = [
        {"name": f"a{number}", "import_path": "elsewhere:build", "deployments": [deployment]}
        for number, deployment in enumerate(deployments)
    ]
    if inference:
        built = {"name": "inference", "import_path": "serve_app.inference:build"}
        few = [{"num_replicas": 0}]
        applications.append(built | {"args": inference, "deployments": few})
    return {"applications": applications}


def scale(**deployment: object) -> Scale:
    (only,) = scales(config(deployment))
    return only


def test_what_is_not_said_is_serves_default():
    default = DeploymentConfig()
    expected = Scale("a0", 1.0, default.num_replicas, default.num_replicas, 0, None)
    assert scale() == expected
    assert default.max_surge_percent == 0
    assert list(scales({"applications": [{"name": "a0"}]})) == [expected]


@pytest.mark.parametrize(
    ("deployment", "bounds"),
    [
        ({"num_replicas": 3}, (3, 3)),
        ({"num_replicas": "auto"}, (1, 100)),
        ({"autoscaling_config": {"min_replicas": 2, "max_replicas": 5}}, (2, 5)),
        ({"autoscaling_config": {}}, (1, 1)),
    ],
)
def test_replicas_are_fixed_or_within_the_bounds_of_autoscaling(deployment, bounds):
    assert scale(**deployment)[2:4] == bounds


def test_the_default_bounds_are_those_of_serve():
    from ray.serve._private.config import handle_num_replicas_auto

    _, auto = handle_num_replicas_auto(None, None)
    assert {key: getattr(auto, key) for key in resources._AUTO} == resources._AUTO


def test_a_surge_is_rounded_up_as_serve_does():
    assert scale(num_replicas=3, max_surge_percent=50).surge == 2


def test_replicas_of_which_a_node_takes_few_need_several_nodes():
    assert scale(num_replicas=3, max_replicas_per_node=2).nodes(3) == 2
    assert scale(num_replicas=3).nodes(3) == 1


def test_all_replicas_count_and_state_actors_take_memory_alone():
    half = {"ray_actor_options": {"num_cpus": 0.5}}
    growing = half | {"autoscaling_config": {"min_replicas": 2, "max_replicas": 4}}
    both = config(half, growing, shards=3)
    actors = 3 * resources.STATE_ACTOR_MB
    assert least(both) == Need(1.5, 3 * resources.REPLICA_MB + actors)
    assert most(both) == Need(2.5, 5 * resources.REPLICA_MB + actors)


def test_one_application_changes_at_a_time_so_the_largest_surge_is_needed():
    small = {"num_replicas": 4, "max_surge_percent": 50, "ray_actor_options": {"num_cpus": 0.1}}
    large = {"num_replicas": 1, "max_surge_percent": 50, "ray_actor_options": {"num_cpus": 0.5}}
    assert surge(config(small, large)) == Need(0.5, 2 * resources.REPLICA_MB)


def test_the_shipped_config_fits_into_two_cores_and_the_memory_that_was_measured():
    shipped = shipped_config()
    assert least(shipped).cpus + surge(shipped).cpus <= 2
    assert most(shipped).cpus <= 2
    measured = 2550
    assert least(shipped).megabytes + resources.megabytes_of_ray(1) == pytest.approx(measured, 0.1)


def test_the_config_of_a_cluster_says_what_it_needs():
    path = ROOT / "configs" / "cluster.yaml"
    cluster = yaml.safe_load(path.read_text())
    at_least = round(least(cluster).cpus + surge(cluster).cpus, 3)
    said = f"It needs {at_least:g} CPUs at least, two nodes of two cores"
    assert said in path.read_text()
    assert at_least <= 4
    assert f"can grow to {most(cluster).cpus:g};" in path.read_text()


def test_in_a_cluster_no_application_finds_place_for_all_of_its_replicas_on_one_node():
    cluster = yaml.safe_load((ROOT / "configs" / "cluster.yaml").read_text())
    nodes = {scale.application: scale.nodes(scale.least) for scale in resources.scales(cluster)}
    assert nodes.pop("console") == 1, "only who looks on feels its death"
    assert set(nodes.values()) == {2}


def test_it_is_said_in_one_line():
    text = needs(config({"num_replicas": 2, "max_surge_percent": 50}))
    assert text == "needs 3 CPUs and 1.3 GB, can grow to 2 and 1.2 GB"
