"""The conflict monitor: refuses every state in which two conflicting movements are green.

It shares no code with the safety layer that it watches. The layer computes its changes from
intergreen times; the monitor uses the conflicts that the junction's network declares, and derives
them from the intergreen times only where a network file declares none. A movement counts as green
until its yellow is over, and not while its red and yellow (``u``) precede the green.
"""

from __future__ import annotations

from models.networks.network import Network
from models.signals.signal import Signal, read_signals

_LETTERS, _REDS = frozenset("ruygG"), frozenset("ru")


class ConflictError(Exception):
    """This state must not be shown; the message says which links conflict."""


class ConflictMonitor:
    """Knows the conflicts of one junction.

    Two links that conflict may be green together only where a phase has them so, and the one that
    has to give way has the letter for it (``g``) or is yellow.

    Args:
        n_links: letters in a state.
        conflicts: pairs of links whose vehicles can meet.
        gives_way: pairs of links, the first of which gives way to the second when both are green.

    Attributes:
        conflicts: ordered, each pair once.
    """

    def __init__(
        self, n_links: int, conflicts: set[tuple[int, int]], gives_way: set[tuple[int, int]]
    ) -> None:
        self._n_links = n_links
        self.conflicts = sorted({(min(pair), max(pair)) for pair in conflicts})
        self._gives_way = gives_way
        self._known: dict[str, str] = {}  # by state, what is wrong with it

    def check(self, state: str) -> None:
        """Let a state pass.

        Raises:
            ConflictError: conflicting movements are green in it, or the junction has no such state.
        """
        wrong = self._known.get(state)
        if wrong is None:
            wrong = self._find_conflict(state)
            if len(self._known) < 1000:  # a junction has a few dozen; the bound is for strangers
                self._known[state] = wrong
        if wrong:
            raise ConflictError(wrong)

    def _find_conflict(self, state: str) -> str:
        if len(state) != self._n_links or not _LETTERS.issuperset(state):
            return f"{state!r:.100} is not a state of {self._n_links} links"
        for a, b in self.conflicts:
            if not _REDS.isdisjoint((state[a], state[b])):
                continue
            yields = ((a, b) in self._gives_way and state[a] != "G") or (
                (b, a) in self._gives_way and state[b] != "G"
            )
            if not yields:
                return f"links {a} and {b} conflict in {state}"
        return ""


def make_monitors(network: Network) -> dict[str, ConflictMonitor]:
    """Return a monitor for each junction.

    Raises:
        ValueError: the network file lacks what a monitor needs.
    """
    return {name: _monitor(signal) for name, signal in read_signals(network).items()}


def _monitor(signal: Signal) -> ConflictMonitor:
    """Return a monitor of a signal's conflicts.

    Links that a phase shows green together, both with priority, merge into separate lanes and
    do not conflict. A link that gives way in a phase must have the letter for it.
    """
    meeting = set(signal.conflicts) if signal.conflicts is not None else _from_intergreen(signal)
    meeting |= {(b, a) for a, b in meeting}
    merging = {(a, b) for a, b in meeting if any(s[a] == s[b] == "G" for s in signal.phases)}
    yielding = {
        (a, b) for a, b in meeting if any(s[a] == "g" and s[b] in "gG" for s in signal.phases)
    }
    return ConflictMonitor(len(signal.phases[0]), meeting - merging, yielding)


def _from_intergreen(signal: Signal) -> set[tuple[int, int]]:
    places = range(len(signal.phases[0]))
    return {
        (a, b) for a in places for b in places if signal.intergreen[a][b] is not None and a != b
    }
