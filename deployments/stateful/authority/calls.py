"""What keeps a message that comes twice from being carried out twice."""

from __future__ import annotations

from deployments.stateful.protocol import StaleSessionError

REMEMBERED = 4096
"""CallFilter of a session that are told apart; of earlier ones nobody knows whether they came
before."""


class CallFilter:
    """The calls of one session, each of which is carried out at most once."""

    def __init__(self) -> None:
        self._newest = 0
        self._taken: set[int] = set()

    def take(self, number: int) -> None:
        """Note that a call is carried out now.

        Raises:
            StaleSessionError: it has been before, or it is too old to tell.
        """
        if number in self._taken or number <= self._newest - REMEMBERED:
            raise StaleSessionError(f"call {number} has come before, or is very late")
        self._newest = max(self._newest, number)
        self._taken.add(number)
        if len(self._taken) > 2 * REMEMBERED:
            self._taken = {each for each in self._taken if each > self._newest - REMEMBERED}
