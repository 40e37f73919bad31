"""A running cluster tells what it has."""

from __future__ import annotations

from load_tests.harness.system import System
from serve_app.rollout.capacity import Node, nodes_of, this_machine


def test_the_only_node_has_what_ray_found_on_this_machine(system: System) -> None:
    machine = this_machine()
    (node,) = nodes_of(system.instance.dashboard_url)
    assert isinstance(node, Node)
    assert node.cpus == machine.cpus
    assert 0 < node.megabytes < 2 * machine.megabytes
