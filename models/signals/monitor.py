"""The conflict monitor: refuses every state in which two conflicting movements are green.

It shares nothing with the safety layer that it watches: it reads the network itself, and takes the
conflicts from what netconvert found out about the junction's links, not from their geometry. A
movement counts as green until its yellow is over.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from models.shipped import NETWORK_FILE

_LETTERS = frozenset("rygG")


class ConflictError(Exception):
    """This state must not be shown; the message says which links conflict."""


class ConflictMonitor:
    """Knows the conflicts of one junction.

    Two links that conflict may be green together only where the network's own program has them so,
    and the one that has to give way has the letter for it (``g``) or is yellow.

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
        self.conflicts = sorted((a, b) for a, b in conflicts if a < b)
        self._gives_way = gives_way
        self._known: dict[str, str] = {}  # by state, what is wrong with it

    def check(self, state: str) -> None:
        """Let a state pass.

        Raises:
            ConflictError: conflicting movements are green in it, or it is no state of the junction.
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
            return f"{state!r:.100} is no state of {self._n_links} links"
        for a, b in self.conflicts:
            if "r" in (state[a], state[b]):
                continue
            yields = ((a, b) in self._gives_way and state[a] != "G") or (
                (b, a) in self._gives_way and state[b] != "G"
            )
            if not yields:
                return f"links {a} and {b} conflict in {state}"
        return ""


def read_monitors(path: str | os.PathLike[str] = NETWORK_FILE) -> dict[str, ConflictMonitor]:
    """Return a monitor for each signalised junction of a network that netconvert built.

    Raises:
        ConflictError: the network's own program shows a conflict.
    """
    root = ET.parse(path).getroot()
    connections = [each.attrib for each in root.iterfind("connection")]
    continues = {
        f"{each['from']}_{each['fromLane']}": each["via"]
        for each in connections
        if each["from"].startswith(":") and "via" in each
    }
    monitors = {}
    for program in root.iterfind("tlLogic"):
        name = program.attrib["id"]
        links = {}
        for each in connections:
            if each.get("tl") == name:
                lane: str | None = each["via"]
                while lane is not None:  # a way may have two parts, the first up to where it waits
                    links[lane] = int(each["linkIndex"])
                    lane = continues.get(lane)
        states = [phase.attrib["state"] for phase in program.iterfind("phase")]
        monitors[name] = _read_monitor(root, name, links, states)
        for state in states:
            monitors[name].check(state)
    return monitors


def _read_monitor(
    root: ET.Element, name: str, links: dict[str, int], states: list[str]
) -> ConflictMonitor:
    (junction,) = [each for each in root.iterfind("junction") if each.get("id") == name]
    order = [links[lane] for lane in junction.attrib["intLanes"].split()]
    conflicts, gives_way = set(), set()
    for row in junction.iterfind("request"):
        link = order[int(row.attrib["index"])]
        conflicts |= {(link, order[other]) for other in _ones(row.attrib["foes"])}
        gives_way |= {(link, order[other]) for other in _ones(row.attrib["response"])}
    conflicts |= {(b, a) for a, b in conflicts}
    together = {(a, b) for a, b in gives_way if any(s[a] == "g" and s[b] in "gG" for s in states)}
    return ConflictMonitor(len(set(links.values())), conflicts, together)


def _ones(bits: str) -> Iterator[int]:
    """Yield the places of the ones, counted from the right, as netconvert writes them."""
    return (place for place, bit in enumerate(reversed(bits)) if bit == "1")
