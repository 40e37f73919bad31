"""What HAProxy says, in the form of the keeper's own lines."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import IO

from serve_app.processes.supervision.restarts import logger

STARTING_S = 5.0  # every server is checked once within a second, and given up after another

_STATE = re.compile(r"[Ss]erver (\S+) is (UP|DOWN)\b")
_NO_SERVER = "has no server available!"


class Levels:
    """Knows what deserves a warning: not that nothing is behind an edge that has just started.

    The edge is there before Serve, so it finds every server DOWN at first, and UP later.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._awaited: set[str] = set()

    def of(self, line: str) -> int:
        """Return the level of a line, as ``logging`` counts them."""
        is_expected = line.startswith("[NOTICE]") or self._belongs_to_the_start(line)
        return logging.INFO if is_expected else logging.WARNING

    def _belongs_to_the_start(self, line: str) -> bool:
        starts = self._clock() - self._began < STARTING_S
        found = _STATE.search(line)
        if found is None:
            return starts and _NO_SERVER in line
        server, state = found.groups()
        if state == "DOWN":
            if starts:
                self._awaited.add(server)
            return starts
        is_awaited = server in self._awaited
        self._awaited.discard(server)
        return is_awaited


def pass_on(words: IO[bytes]) -> None:
    """Log every line until there are no more; HAProxy may outlive its reader."""
    levels = Levels()
    with words:
        for word in words:
            line = word.decode(errors="replace").rstrip()
            logger.log(levels.of(line), "HAProxy: %s", line)
