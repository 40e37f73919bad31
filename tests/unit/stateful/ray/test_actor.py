"""What Ray is told of the state actor."""

from __future__ import annotations

import ray

from deployments.stateful.ray.actor import StateActor


def test_ray_keeps_nothing_of_the_calls_that_replicas_hold_open():
    methods = ray.remote(StateActor).__ray_metadata__.method_meta
    assert "listen" in methods.methods
    assert methods.enable_task_events == {"listen": False}
