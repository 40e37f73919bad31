"""What an application leaves behind when it is removed."""

from __future__ import annotations

from load_tests.harness.system import application
from tests.cluster.gateway.conftest import wait_for
from tests.cluster.inference.conftest import step


def test_its_state_actor_ends_and_the_next_one_has_its_states(system, run_id):
    removed, others = application("removed", "/removed", lease_s=0.5), set(system.state_actors())
    system.deploy(removed)
    (actor,) = set(system.state_actors()) - others
    assert [step(system, "removed", run_id) for _ in range(2)] == [1, 2]
    system.remove("removed")
    wait_for(lambda: not actor.is_running(), timeout_s=90)

    system.deploy(removed)
    assert step(system, "removed", run_id) == 3
    system.remove("removed")
