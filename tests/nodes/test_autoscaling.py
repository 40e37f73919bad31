"""Replicas that come with the load and go with it, under clients that check every answer."""

from __future__ import annotations

from load_tests.autoscaling.up_and_down import MOST, scaled_application, up_and_down
from load_tests.harness.system import System


async def test_replicas_follow_the_load_no_request_fails_and_every_state_is_exact(
    system: System,
) -> None:
    system.deploy(scaled_application("inference-scaled", "/scaled"))
    try:
        tally, looks = await up_and_down(
            system, "inference-scaled", f"{system.url}/scaled", 40, 1.0, lambda _: None
        )
    finally:
        system.remove("inference-scaled")
    assert max(look.replicas for look in looks) == MOST
    assert tally.answered > 1000
    assert tally.failed == []
    assert tally.wrong == []
    assert looks[-1].moves < tally.answered / 50
