"""Options with times so short that a test of many leases is short."""

from __future__ import annotations

from typing import Any

from deployments.stateful.options import StateOptions

FAST = StateOptions().model_copy(update={"lease_s": 0.2, "snapshot_period_s": 0.1})


def settings(**changes: Any) -> StateOptions:
    """Return the fast settings with some changed, in or out of range."""
    assert changes.keys() <= StateOptions.model_fields.keys()
    return FAST.model_copy(update=changes)
