"""The layout of the network: an arterial from west to east and an avenue from north to south.

::

                              north
                                |
                             market ------ market_east
        station_north           |     park_north (one way south)
              ^ (one way north) |              |
     west -- station -- mill -- center ------ park -- east
              |          |      |              v
       station_south  mill_south  south     park_south

All lengths in metres. Lanes count from the kerb: lane 0 is the rightmost.
"""

from __future__ import annotations

from typing import NamedTuple

SPEED_LIMIT = 13.9  # m/s, 50 km/h


class Node(NamedTuple):
    """A point of the network; a signalised one bears its junction's id from the junction table."""

    id: str
    x: float
    y: float
    signalised: bool = False


class Edge(NamedTuple):
    """A one-way carriageway, named ``<start>_to_<end>``."""

    start: str
    end: str
    lanes: int

    @property
    def id(self) -> str:
        return f"{self.start}_to_{self.end}"


class Movement(NamedTuple):
    """A way across a junction.

    Attributes:
        start, via, end: names of the node it comes from, the junction, and the node it goes to.
        lanes: pairs (lane of the incoming edge, lane of the outgoing edge).
        greens: one character per green phase in SUMO's notation: ``G`` has priority, ``g`` gives
            way to oncoming traffic, ``r`` is red.
    """

    start: str
    via: str
    end: str
    lanes: tuple[tuple[int, int], ...]
    greens: str


NODES: dict[str, Node] = {
    "center": Node("joinedS_265580996_300839357", 0, 0, signalised=True),
    "mill": Node("300839359", -300, 0, signalised=True),
    "station": Node("265580972", -580, 0, signalised=True),
    "park": Node("1270712555", 320, 0, signalised=True),
    "market": Node("8541180897", 0, 280, signalised=True),
    "west": Node("west", -900, 0),
    "east": Node("east", 660, 0),
    "north": Node("north", 0, 580),
    "south": Node("south", 0, -340),
    "station_south": Node("station_south", -580, -240),
    "station_north": Node("station_north", -580, 220),
    "mill_south": Node("mill_south", -300, -220),
    "park_north": Node("park_north", 320, 240),
    "park_south": Node("park_south", 320, -220),
    "market_east": Node("market_east", 240, 280),
}

EDGES: tuple[Edge, ...] = (
    # arterial, eastbound then westbound
    Edge("west", "station", 2),
    Edge("station", "mill", 2),
    Edge("mill", "center", 4),
    Edge("center", "park", 2),
    Edge("park", "east", 2),
    Edge("east", "park", 2),
    Edge("park", "center", 4),
    Edge("center", "mill", 2),
    Edge("mill", "station", 2),
    Edge("station", "west", 2),
    # avenue, southbound then northbound
    Edge("north", "market", 2),
    Edge("market", "center", 3),
    Edge("center", "south", 2),
    Edge("south", "center", 3),
    Edge("center", "market", 2),
    Edge("market", "north", 2),
    # side streets
    Edge("station_south", "station", 1),
    Edge("station", "station_north", 1),
    Edge("mill_south", "mill", 1),
    Edge("mill", "mill_south", 1),
    Edge("park_north", "park", 1),
    Edge("park", "park_south", 1),
    Edge("market_east", "market", 1),
    Edge("market", "market_east", 1),
)

STRAIGHT = ((0, 0), (1, 1))
FAN_OUT_TO_3 = ((0, 0), (0, 1), (1, 2))
FAN_OUT_TO_4 = ((0, 0), (0, 1), (1, 2), (1, 3))

MOVEMENTS: tuple[Movement, ...] = (
    # center: arterial through, arterial left, avenue through, avenue left. A right turn from the
    # arterial also runs with the left turns of the avenue, which it does not meet.
    Movement("mill", "center", "south", ((0, 0),), "GrrG"),
    Movement("mill", "center", "park", ((1, 0), (2, 1)), "Grrr"),
    Movement("mill", "center", "market", ((3, 1),), "rGrr"),
    Movement("park", "center", "market", ((0, 0),), "GrrG"),
    Movement("park", "center", "mill", ((1, 0), (2, 1)), "Grrr"),
    Movement("park", "center", "south", ((3, 1),), "rGrr"),
    Movement("market", "center", "mill", ((0, 0),), "rrGr"),
    Movement("market", "center", "south", STRAIGHT, "rrGr"),
    Movement("market", "center", "park", ((2, 1),), "rrrG"),
    Movement("south", "center", "park", ((0, 0),), "rrGr"),
    Movement("south", "center", "market", STRAIGHT, "rrGr"),
    Movement("south", "center", "mill", ((2, 1),), "rrrG"),
    # mill: arterial, side street
    Movement("station", "mill", "mill_south", ((0, 0),), "Gr"),
    Movement("station", "mill", "center", FAN_OUT_TO_4, "Gr"),
    Movement("center", "mill", "station", STRAIGHT, "Gr"),
    Movement("center", "mill", "mill_south", ((1, 0),), "gr"),
    Movement("mill_south", "mill", "center", ((0, 0), (0, 1)), "rG"),
    Movement("mill_south", "mill", "station", ((0, 1),), "rG"),
    # station: arterial, one-way street
    Movement("west", "station", "mill", STRAIGHT, "Gr"),
    Movement("west", "station", "station_north", ((1, 0),), "gr"),
    Movement("mill", "station", "west", STRAIGHT, "Gr"),
    Movement("mill", "station", "station_north", ((0, 0),), "Gr"),
    Movement("station_south", "station", "mill", ((0, 0),), "rG"),
    Movement("station_south", "station", "station_north", ((0, 0),), "rG"),
    Movement("station_south", "station", "west", ((0, 1),), "rG"),
    # park: arterial, one-way street
    Movement("center", "park", "east", STRAIGHT, "Gr"),
    Movement("center", "park", "park_south", ((0, 0),), "Gr"),
    Movement("east", "park", "center", FAN_OUT_TO_4, "Gr"),
    Movement("east", "park", "park_south", ((1, 0),), "gr"),
    Movement("park_north", "park", "center", ((0, 0), (0, 1)), "rG"),
    Movement("park_north", "park", "park_south", ((0, 0),), "rG"),
    Movement("park_north", "park", "east", ((0, 1),), "rG"),
    # market: avenue, side street
    Movement("north", "market", "center", FAN_OUT_TO_3, "Gr"),
    Movement("north", "market", "market_east", ((1, 0),), "gr"),
    Movement("center", "market", "north", STRAIGHT, "Gr"),
    Movement("center", "market", "market_east", ((0, 0),), "Gr"),
    Movement("market_east", "market", "north", ((0, 0),), "rG"),
    Movement("market_east", "market", "center", ((0, 1), (0, 2)), "rG"),
)
