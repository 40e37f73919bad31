"""A running cluster reports its resources."""

from __future__ import annotations

from load_tests.harness.system import System
from serve_app.rollout.capacity import Node, local_node, nodes_of


def test_the_only_node_has_what_ray_found_on_this_machine(system: System) -> None:
    machine = local_node()
    (node,) = nodes_of(system.instance.dashboard)
    assert isinstance(node, Node)
    assert node.cpus == machine.cpus
    assert 0 < node.megabytes < 2 * machine.megabytes
