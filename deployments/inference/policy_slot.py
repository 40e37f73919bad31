"""The policy that is being served, and how another takes its place."""

from __future__ import annotations

import asyncio
import logging

from models.policy.form import InvalidPolicyFileError
from models.policy.step import PolicyStep

logger = logging.getLogger("ray.serve")


class PolicySlot:
    """Holds the policy in service; a file that cannot be served leaves it in place.

    Attributes:
        policy: None until a first file was good.
        problem: why the newest file is not served, None if it is.
    """

    def __init__(self) -> None:
        self.policy: PolicyStep | None = None
        self.problem: str | None = "no policy file has been read yet"

    async def load(self, path: str) -> None:
        """Read a policy file off the event loop and put it in service.

        Hidden states stay: a policy that must start from zeros wants a reset call.
        """
        try:
            policy = await asyncio.to_thread(_read, path)
        except InvalidPolicyFileError as error:
            self.problem = str(error)
            serving = "the policy before it stays in service" if self.policy else "no model"
            logger.error("The policy was not loaded (%s): %s", serving, error)
            return
        self.policy, self.problem = policy, None
        logger.info("Serving the policy of %s.", path)


def _read(path: str) -> PolicyStep:
    from models.policy.network import (
        read_state_dict,  # PyTorch: two seconds, while leases are set up
    )

    return PolicyStep(read_state_dict(path))
