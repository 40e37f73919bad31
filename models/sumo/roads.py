"""Which edges of a SUMO network lead where, for passenger cars; read by SUMO's own library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from xml.sax import SAXException

import sumolib

from models.sumo.demand_tables import InvalidDemandError

VEHICLE_CLASS = "passenger"


class Roads:
    """A network's edges.

    Raises:
        InvalidDemandError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InvalidDemandError(f"{path} is not there.")
        try:
            self._net = sumolib.net.readNet(str(path))
        except (OSError, SAXException, KeyError, ValueError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise InvalidDemandError(f"{path} is no SUMO network: {reason}") from error
        self.reachable = lru_cache(maxsize=None)(self._reachable)

    def __contains__(self, edge: str) -> bool:
        return bool(self._net.hasEdge(edge)) and bool(self._net.getEdge(edge).allows(VEHICLE_CLASS))

    @cached_property
    def exits(self) -> dict[str, int]:
        """The edges that lead to nothing but back, each with its number of lanes."""
        return {
            edge.getID(): edge.getLaneNumber()
            for edge in self._net.getEdges()
            if edge.allows(VEHICLE_CLASS) and not self.ways(edge.getID())
        }

    def ways(self, edge: str) -> Mapping[str, int]:
        """Return the edges that an edge leads to, by their connections; no turning round."""
        here = self._net.getEdge(edge)
        return Counter(
            end.getID()
            for end, connections in here.getOutgoing().items()
            for connection in connections
            if end.allows(VEHICLE_CLASS) and connection.getDirection() != "t"
        )

    def connected(self, start: str, end: str) -> bool:
        """Return whether one edge leads to another, be it by turning round."""
        return self._net.getEdge(end) in self._net.getEdge(start).getOutgoing()

    def is_way_back(self, start: str, end: str) -> bool:
        """Return whether an edge ends where another begins."""
        return bool(self._net.getEdge(start).getFromNode() == self._net.getEdge(end).getToNode())

    @property
    def edges(self) -> list[str]:
        """Those for cars."""
        return [each.getID() for each in self._net.getEdges() if each.allows(VEHICLE_CLASS)]

    def _reachable(self, start: str) -> frozenset[str]:
        found = self._net.getReachable(self._net.getEdge(start), VEHICLE_CLASS)
        return frozenset(each.getID() for each in found)
