"""Options with times so short that a test of many leases is short."""

from __future__ import annotations

from typing import Any

from deployments.inference.options import InferenceOptions

FAST = InferenceOptions().model_copy(
    update={
        "lease_s": 0.2,  # less than a config may say
        "lease_margin_s": 0.03,
        "leader_lease_s": 0.2,
        "probe_after_s": 0.005,
        "commit_delay_s": 0.003,
        "checkout_timeout_s": 2.0,
        "commit_timeout_s": 1.5,
        "snapshot_period_s": 0.1,
    }
)


def settings(**changes: Any) -> InferenceOptions:
    """Return the fast settings with some changed, in or out of range."""
    assert changes.keys() <= InferenceOptions.model_fields.keys()
    return FAST.model_copy(update=changes)
