"""Replicas are added and removed with the load, under clients that check every answer."""

from __future__ import annotations

from load_tests.autoscaling import MOST, Scaling, scaled_application
from load_tests.harness.system import System


async def test_replicas_follow_the_load_no_request_fails_and_every_state_is_exact(
    system: System,
) -> None:
    system.deploy(scaled_application("inference-scaled", "/scaled"))
    scaling = Scaling(system, "inference-scaled", f"{system.url}/scaled")
    try:
        verdict = await scaling.run(many=40, calm_s=1.0)
    finally:
        system.remove("inference-scaled")
    assert max(each.replicas for each in scaling.seconds) == MOST
    assert len(scaling.history.answers) > 1000
    assert scaling.history.failures == []
    assert verdict.findings == ()
