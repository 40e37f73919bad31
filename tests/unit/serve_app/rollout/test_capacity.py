"""What a config needs, counted as Serve counts it, and whether a cluster has it."""

from typing import Any

import pytest
import yaml
from ray.serve._private.config import DeploymentConfig

from load_tests.harness.shipped import ROOT, shipped_config
from serve_app.rollout import capacity
from serve_app.rollout.capacity import (
    FORKED,
    HEAD_MB,
    NODE_MB,
    UNSHARED,
    Room,
    Scale,
    describe_needs,
    least,
    most,
    nodes_of,
    scales,
    surge,
)
from tests.support.fake_ray import node

ROOMY = Room(4.0, 8000.0)


def shortfall(config: dict[str, Any], nodes: list[Room]) -> str | None:
    return capacity.shortfall(config, nodes, UNSHARED)


def growth_limit(config: dict[str, Any], nodes: list[Room]) -> str | None:
    return capacity.growth_limit(config, nodes, UNSHARED)


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


def test_what_is_not_said_is_serves_default():
    default = DeploymentConfig()
    expected = Scale("a0", 1.0, default.num_replicas, default.num_replicas, 0, None)
    assert list(scales(config({}))) == [expected]
    assert list(scales({"applications": [{"name": "a0"}]})) == [expected]
    assert default.max_surge_percent == 0


@pytest.mark.parametrize(
    ("deployment", "least_most_surge", "nodes"),
    [
        ({"num_replicas": 3}, (3, 3, 0), 1),
        ({"num_replicas": 3, "max_replicas_per_node": 2}, (3, 3, 0), 2),
        ({"num_replicas": 3, "max_surge_percent": 50}, (3, 3, 2), 1),  # rounded up as by Serve
        ({"num_replicas": "auto"}, (1, 100, 0), 1),
        ({"autoscaling_config": {"min_replicas": 2, "max_replicas": 5}}, (2, 5, 0), 1),
        ({"autoscaling_config": {}}, (1, 1, 0), 1),
    ],
)
def test_replicas_are_fixed_or_within_the_bounds_of_autoscaling(
    deployment, least_most_surge, nodes
):
    (scale,) = scales(config(deployment))
    assert (scale.least, scale.most, scale.surge) == least_most_surge
    assert scale.nodes(scale.least) == nodes


def test_the_default_bounds_are_those_of_serve():
    from ray.serve._private.config import handle_num_replicas_auto

    _, auto = handle_num_replicas_auto(None, None)
    assert {key: getattr(auto, key) for key in capacity._AUTO} == capacity._AUTO


def test_all_replicas_count_and_state_actors_take_memory_alone():
    half = {"ray_actor_options": {"num_cpus": 0.5}}
    growing = half | {"autoscaling_config": {"min_replicas": 2, "max_replicas": 4}}
    both = config(half, growing, shards=3)
    for workers in (FORKED, UNSHARED):
        actors = 3 * workers.state_actor
        assert least(both, workers) == Room(1.5, 3 * workers.replica + actors)
        assert most(both, workers) == Room(2.5, 5 * workers.replica + actors)


def test_one_application_changes_at_a_time_so_the_largest_surge_is_needed():
    small = {"num_replicas": 4, "max_surge_percent": 50, "ray_actor_options": {"num_cpus": 0.1}}
    large = {"num_replicas": 1, "max_surge_percent": 50, "ray_actor_options": {"num_cpus": 0.5}}
    assert surge(config(small, large)) == Room(0.5, 2 * UNSHARED.replica)


def test_the_shipped_config_fits_into_two_cores_and_the_memory_that_was_measured():
    shipped = shipped_config()
    assert least(shipped).cpus + surge(shipped).cpus <= 2
    assert most(shipped).cpus <= 2
    for workers, measured in ((UNSHARED, 2660), (FORKED, 1600)):
        counted = least(shipped, workers).megabytes + capacity.megabytes_of_ray(1)
        assert counted == pytest.approx(measured, 0.15)


def test_the_config_of_a_cluster_documents_its_needs():
    path = ROOT / "configs" / "cluster.yaml"
    cluster = yaml.safe_load(path.read_text())
    at_least = round(least(cluster).cpus + surge(cluster).cpus, 3)
    needs = f"It needs {at_least:g} CPUs at least, two nodes of two cores"
    assert needs in path.read_text()
    assert at_least <= 4
    assert f"can grow to {most(cluster).cpus:g};" in path.read_text()


def test_in_a_cluster_no_application_finds_place_for_all_of_its_replicas_on_one_node():
    cluster = yaml.safe_load((ROOT / "configs" / "cluster.yaml").read_text())
    nodes = {scale.application: scale.nodes(scale.least) for scale in capacity.scales(cluster)}
    assert nodes.pop("console") == 1, "its death affects browsers only"
    assert set(nodes.values()) == {2}


def test_the_needs_are_described_in_one_line():
    fixed = {"num_replicas": 2, "max_surge_percent": 50}
    assert describe_needs(config(fixed)) == "needs 3 CPUs and 1.3 GB"
    growing = {"autoscaling_config": {"max_replicas": 4}}
    text = describe_needs(config(growing))
    assert text == "needs 1 CPUs and 1.1 GB, can grow to 4 and 1.4 GB"
    surging = config(
        {"autoscaling_config": {"min_replicas": 4, "max_replicas": 5}} | {"max_surge_percent": 50}
    )
    assert describe_needs(surging) == "needs 6 CPUs and 1.6 GB, can grow to 6 and 1.6 GB"


@pytest.mark.parametrize(
    ("deployment", "nodes", "sentence"),
    [
        ({"num_replicas": 4}, [ROOMY], None),
        ({"num_replicas": 3, "ray_actor_options": {"num_cpus": 0.1}}, [Room(0.3, 8000.0)], None),
        (
            {"num_replicas": 5},
            [ROOMY],
            "The config needs 5 CPUs, and the cluster has 4 (1 node): add nodes, or lower"
            " min_replicas, num_replicas or num_cpus.",
        ),
        (
            {"num_replicas": 4, "max_surge_percent": 50},
            [Room(2.0, 8000.0), Room(2.0, 8000.0)],
            "The config needs 6 CPUs (4 for the least number of its replicas, 2 to change a version"
            " while the old one serves), and the cluster has 4 (2 nodes): add nodes, or lower"
            " min_replicas, num_replicas or num_cpus.",
        ),
        (
            {"ray_actor_options": {"num_cpus": 3}},
            [Room(2.0, 8000.0), Room(2.0, 8000.0)],
            "Each replica of a0 needs 3 CPUs (num_cpus), more than any node of the cluster has.",
        ),
        (
            {"num_replicas": 2, "max_replicas_per_node": 1},
            [ROOMY, Room(0.0, 8000.0)],
            "The 2 replicas of a0 need 2 nodes (max_replicas_per_node), and the cluster has 4"
            " (1 node).",
        ),
        (
            {"num_replicas": 4},
            [Room(4.0, 1000.0)],
            "The config needs 1.4 GB of memory for the least number of its replicas, and 1.0 GB"
            " were free when Ray was started: add nodes, or lower min_replicas, num_replicas or"
            " num_cpus.",
        ),
    ],
    ids=["it fits", "tenths add up", "cpus", "surge", "one replica", "spread", "memory"],
)
def test_what_does_not_fit_is_explained_in_one_sentence(deployment, nodes, sentence):
    assert shortfall(config(deployment), nodes) == sentence
    assert growth_limit(config({"num_replicas": 4}), [ROOMY]) is None


def test_exactly_enough_is_enough():
    enough = HEAD_MB + 2 * NODE_MB + 4 * UNSHARED.replica
    exact = [Room(2.0, enough / 2), Room(2.0, enough / 2)]
    assert shortfall(config({"num_replicas": 4}), exact) is None
    assert growth_limit(config({"num_replicas": 4}), exact) is None
    assert shortfall(config({"num_replicas": 4}), [exact[0], Room(2.0, enough / 2 - 1)]) is not None


def test_room_for_fewer_replicas_than_autoscaling_may_want_is_reported():
    growing = config({"autoscaling_config": {"min_replicas": 1, "max_replicas": 9}})
    assert shortfall(growing, [ROOMY]) is None
    assert growth_limit(growing, [ROOMY]) == (
        "The config can grow to 9 CPUs and 1.9 GB of memory, and the cluster has 4 (1 node) and"
        " 8.0 GB: further replicas wait for more nodes."
    )
    assert growth_limit(growing, [Room(9.0, 1000.0)]) is not None
    spread = config({"autoscaling_config": {"max_replicas": 4}, "max_replicas_per_node": 2})
    assert growth_limit(spread, [ROOMY, ROOMY]) is None
    assert "of memory over 2 nodes, and" in str(growth_limit(spread, [ROOMY]))


def test_living_nodes_count_with_what_ray_counts_out(ray_api):
    ray_api.nodes = [node(2.0, 1024), node(1.0, 2048), node(64.0, 65536, "DEAD")]
    del ray_api.nodes[1]["resources_total"]["CPU"]
    assert nodes_of(ray_api.dashboard) == [Room(2.0, 1024.0), Room(0.0, 2048.0)]
