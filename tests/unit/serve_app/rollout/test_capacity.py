"""What finds no place in a cluster is told in one sentence."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from serve_app import ray_dashboard
from serve_app.rollout.capacity import Node, limit, misfit, nodes_of, this_machine
from serve_app.rollout.resources import HEAD_MB, NODE_MB, REPLICA_MB

ROOMY = Node(4.0, 8000.0)


def config(**deployment: object) -> dict[str, Any]:
    application = {"name": "flow", "import_path": "elsewhere:build", "deployments": [deployment]}
    return {"applications": [application]}


def test_what_fits_is_not_remarked_upon():
    assert misfit(config(num_replicas=4), [ROOMY]) is None
    assert limit(config(num_replicas=4), [ROOMY]) is None


@pytest.mark.parametrize(
    ("deployment", "nodes", "sentence"),
    [
        (
            {"num_replicas": 5},
            [ROOMY],
            "The config needs 5 CPUs, and the cluster has 4 (1 node): add nodes, or lower"
            " min_replicas, num_replicas or num_cpus.",
        ),
        (
            {"num_replicas": 4, "max_surge_percent": 50},
            [Node(2.0, 8000.0), Node(2.0, 8000.0)],
            "The config needs 6 CPUs (4 for the least number of its replicas, 2 to change a version"
            " while the old one serves), and the cluster has 4 (2 nodes): add nodes, or lower"
            " min_replicas, num_replicas or num_cpus.",
        ),
        (
            {"ray_actor_options": {"num_cpus": 3}},
            [Node(2.0, 8000.0), Node(2.0, 8000.0)],
            "Each replica of flow needs 3 CPUs (num_cpus), more than any node of the cluster has.",
        ),
        (
            {"num_replicas": 2, "max_replicas_per_node": 1},
            [ROOMY, Node(0.0, 8000.0)],
            "The 2 replicas of flow need 2 nodes (max_replicas_per_node), and the cluster has 4"
            " (1 node).",
        ),
        (
            {"num_replicas": 4},
            [Node(4.0, 1000.0)],
            "The config needs 1.4 GB of memory for the least number of its replicas, and 1.0 GB"
            " were free when Ray was started: add nodes, or lower min_replicas, num_replicas or"
            " num_cpus.",
        ),
    ],
    ids=["cpus", "surge", "one replica", "spread", "memory"],
)
def test_what_does_not_fit_is_told_in_one_sentence(deployment, nodes, sentence):
    assert misfit(config(**deployment), nodes) == sentence


def test_exactly_enough_is_enough():
    enough = HEAD_MB + 2 * NODE_MB + 4 * REPLICA_MB
    exact = [Node(2.0, enough / 2), Node(2.0, enough / 2)]
    assert misfit(config(num_replicas=4), exact) is None
    assert limit(config(num_replicas=4), exact) is None
    assert misfit(config(num_replicas=4), [exact[0], Node(2.0, enough / 2 - 1)]) is not None


def test_tenths_of_cpus_add_up():
    tenths = config(num_replicas=3, ray_actor_options={"num_cpus": 0.1})
    assert misfit(tenths, [Node(0.3, 8000.0)]) is None


def test_room_for_fewer_replicas_than_autoscaling_may_want_is_told():
    growing = config(autoscaling_config={"min_replicas": 1, "max_replicas": 9})
    assert misfit(growing, [ROOMY]) is None
    assert limit(growing, [ROOMY]) == (
        "The config can grow to 9 CPUs and 1.9 GB of memory, and the cluster has 4 (1 node) and"
        " 8.0 GB: replicas beyond that wait for more nodes."
    )
    assert limit(growing, [Node(9.0, 1000.0)]) is not None
    spread = config(autoscaling_config={"max_replicas": 4}, max_replicas_per_node=2)
    assert limit(spread, [ROOMY, ROOMY]) is None
    assert "of memory over 2 nodes, and" in str(limit(spread, [ROOMY]))


def test_living_nodes_count_with_what_ray_counts_out(monkeypatch):
    rows = [
        {"state": "ALIVE", "resources_total": {"CPU": 2.0, "memory": 1 << 30}},
        {"state": "ALIVE", "resources_total": {"memory": 2 << 30}},
        {"state": "DEAD", "resources_total": {"CPU": 64.0, "memory": 64 << 30}},
    ]
    body = {"data": {"result": {"result": rows}}}

    def get(url: str, path: str, timeout_s: float) -> httpx.Response:
        assert path.startswith("/api/v0/nodes")
        return httpx.Response(200, json=body, request=httpx.Request("GET", url))

    monkeypatch.setattr(ray_dashboard, "get", get)
    assert nodes_of("http://nowhere") == [Node(2.0, 1024.0), Node(0.0, 2048.0)]


def test_a_machine_without_ray_has_what_ray_would_find():
    machine = this_machine()
    assert machine.cpus >= 1
    assert machine.megabytes > 100
