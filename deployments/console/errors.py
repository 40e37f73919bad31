"""Refusals of the console.

RefusedError
├── TooManyConsolesError     503, with Retry-After
├── NoDecisionError          404
└── AnotherPolicyError       409
"""

from __future__ import annotations

from deployments.http.errors import RefusedError


class TooManyConsolesError(RefusedError):
    """As many browsers look as may."""

    status = 503
    retry_after_s = 5
    code = "overloaded"

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} consoles are open; close one, or wait")


class NoDecisionError(RefusedError):
    """There is nothing to ask what-if about."""

    status = 404


class AnotherPolicyError(RefusedError):
    """The policy file has changed since the decision."""

    status = 409

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} does not hold the policy that has made this decision any more")
