"""From the policy's file to what steps it."""

from __future__ import annotations

from pathlib import Path

from models.policy.step import PolicyStep


def read_policy(path: Path) -> PolicyStep:
    """Read a file in the ``agent.th`` form.

    Raises:
        InvalidPolicyFileError: the file cannot be served.
    """
    from models.policy.network import (
        read_state_dict,  # PyTorch: two seconds, while leases are set up
    )

    return PolicyStep(read_state_dict(path))
