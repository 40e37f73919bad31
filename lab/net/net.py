"""A SUMO network: its lanes, signals and connections, read in one pass without SUMO."""

from __future__ import annotations

import gzip
import os
import xml.etree.ElementTree as ET
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO

from lab.net.nema import in_steps
from lab.net.program import Program, read_phases
from models.networks.file import InvalidNetworkError
from models.networks.form import VEHICLE_SPACE_M, Point

_INNER = "internal", "crossing", "walkingarea"  # functions of edges that are not roads


@dataclass(frozen=True)
class SumoLane:
    """A lane between junctions, or inside one; points in metres in the direction of travel."""

    id: str
    edge: str
    length_m: float
    shape: tuple[Point, ...]
    speed_limit: float = 13.89  # m/s
    width_m: float = 3.2
    cars: bool = True  # whether they may drive on it

    @property
    def capacity(self) -> float:
        """Vehicles that can queue on it."""
        return self.length_m / VEHICLE_SPACE_M


@dataclass(frozen=True)
class SumoLink:
    """A connection that a signal controls.

    Attributes:
        index: its place in the signal's states.
        lane, to: ids of lanes.
        to_edge: the edge that it leads to.
        turn: s, l, r, t, L or R.
        via: the first lane inside the junction, None for a net without inner lanes.
        walked: whether it is a pedestrian crossing.
    """

    index: int
    lane: str
    to: str
    to_edge: str
    turn: str
    via: str | None
    walked: bool


@dataclass
class SumoNet:
    """Lanes by id, and by signal its links and programs, in the order of the file.

    Attributes:
        edges: the nodes where each edge begins and ends; without edges inside junctions.
        streets: by edge, the name of its street, where the net has it.
        onwards: by inner lane, the inner lane that follows.
        places: of junctions.
        crossings: edges that people walk over.
        behind: by lane, the lanes that lead to it without a signal.
        ahead: by lane, the lanes that it leads to. Neither has turnarounds.
        ways: from lane to lane of edges, with the turn, in the order of the file.
        foes: pairs of inner lanes whose vehicles can meet.
        switched: by signal, the WAUT of SUMO that switches its programs by time.
    """

    lanes: dict[str, SumoLane] = field(default_factory=dict)
    edges: dict[str, tuple[str, str]] = field(default_factory=dict)
    streets: dict[str, str] = field(default_factory=dict)
    links: dict[str, list[SumoLink]] = field(default_factory=lambda: defaultdict(list))
    programs: dict[str, list[Program]] = field(default_factory=lambda: defaultdict(list))
    onwards: dict[str, str] = field(default_factory=dict)
    places: dict[str, Point] = field(default_factory=dict)
    crossings: set[str] = field(default_factory=set)
    behind: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ahead: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ways: list[tuple[str, str, str]] = field(default_factory=list)
    foes: set[tuple[str, str]] = field(default_factory=set)
    switched: dict[str, str] = field(default_factory=dict)

    def way(self, link: SumoLink) -> tuple[Point, ...]:
        """Return the points of a link across its junction, none where the net does not say."""
        lanes = (self.lanes[inner].shape for inner in self.inner_lanes(link))
        return tuple(point for shape in lanes for point in shape)

    def inner_lanes(self, link: SumoLink) -> Iterator[str]:
        """Yield the lanes of a link inside its junction."""
        inner = link.to if link.walked else link.via
        while inner in self.lanes:
            yield inner
            inner = self.onwards.get(inner) if not link.walked else None

    @cached_property
    def edge_lanes(self) -> dict[str, list[SumoLane]]:
        """The lanes of each edge between junctions, from the kerb."""
        lanes: dict[str, list[SumoLane]] = {edge: [] for edge in self.edges}
        for lane in self.lanes.values():
            if lane.edge in lanes:
                lanes[lane.edge].append(lane)
        return lanes

    @cached_property
    def roads(self) -> dict[str, Counter[str]]:
        """The edges for cars: for each, how many connections lead to which; no turning round."""
        roads: dict[str, Counter[str]] = {
            edge: Counter()
            for edge, lanes in self.edge_lanes.items()
            if any(lane.cars for lane in lanes)
        }
        for here, there, turn in self.pairs:
            if here.edge in roads and there.edge in roads and turn != "t":
                roads[here.edge][there.edge] += 1
        return roads

    @property
    def pairs(self) -> Iterator[tuple[SumoLane, SumoLane, str]]:
        """Yield the ways between lanes that are known."""
        for here, there, turn in self.ways:
            if here in self.lanes and there in self.lanes:
                yield self.lanes[here], self.lanes[there], turn

    @property
    def entries(self) -> list[str]:
        """Edges for cars that nothing but their own way back leads to."""
        followed = {to for ways in self.roads.values() for to in ways}
        return [edge for edge in self.roads if edge not in followed]

    @property
    def exits(self) -> list[str]:
        """Edges for cars that lead to nothing but back."""
        return [edge for edge, ways in self.roads.items() if not ways]

    @cached_property
    def _onwards(self) -> dict[str, set[str]]:
        """By edge, those that its lanes for cars lead cars to, be it by turning round."""
        onwards: defaultdict[str, set[str]] = defaultdict(set)
        for here, there, _ in self.pairs:
            if here.cars and there.cars:
                onwards[here.edge].add(there.edge)
        return onwards

    def reachable(self, start: str) -> set[str]:
        """Return the edges that cars reach from an edge, itself included."""
        found, fringe = {start}, [start]
        while fringe:
            new = self._onwards.get(fringe.pop(), set()) - found
            found |= new
            fringe += new
        return found

    def route(self, start: str, end: str) -> tuple[str, ...]:
        """Return the route with the fewest edges, both ends included; empty without one."""
        previous: dict[str, str] = {start: ""}
        queue = deque([start])
        while queue:
            edge = queue.popleft()
            if edge == end:
                route = [edge]
                while route[0] != start:
                    route.insert(0, previous[route[0]])
                return tuple(route)
            for following in self.roads[edge]:
                if following not in previous:
                    previous[following] = edge
                    queue.append(following)
        return ()


def read_sumo_net(path: str | os.PathLike[str], additional: Iterable[Path] = ()) -> SumoNet:
    """Read a ``.net.xml`` or ``.net.xml.gz``.

    Args:
        additional: SUMO's additional files, whose programs come after those of the net.

    Raises:
        InvalidNetworkError: it cannot be read or is not a SUMO network; one sentence.
    """
    net = SumoNet()
    _read_file(net, Path(path), _READERS, "net")
    for each in additional:
        _read_file(net, each, _READERS_OF_PROGRAMS)
    return net


def _read_file(
    net: SumoNet,
    path: Path,
    readers: Mapping[str, Reader],
    root: str | None = None,
    within: tuple[Path, ...] = (),
) -> None:
    """Read a file and those that it includes; it is within others."""
    what = "SUMO network" if root else "SUMO file"
    try:
        with opened(path) as file:
            for element in _elements(file, root):
                if element.tag == "include" and (name := element.get("href")):
                    if path in within:
                        raise ValueError("it includes itself")
                    _read_file(net, path.parent / name, readers, None, (*within, path))
                if element.tag in readers:
                    readers[element.tag](net, element)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidNetworkError(f"{path}: cannot be read: {reason}") from error
    except InvalidNetworkError:
        raise
    except (ET.ParseError, EOFError, zlib.error, KeyError, ValueError) as error:
        raise InvalidNetworkError(f"{path} is not a {what}: {_reason(error)}") from error


@lru_cache(maxsize=4)
def load_net(path: Path, program: str | None = None, additional: tuple[Path, ...] = ()) -> SumoNet:
    """Read a network once per process, with NEMA programs in steps; it must not be changed.

    Args:
        program: id of the programs that are the last ones of their signals, and so those that
            count; each signal's last one in the files by default.
        additional: files, see :func:`read_sumo_net`.
    """
    net = read_sumo_net(path, additional)
    for programs in net.programs.values():
        programs[:] = sorted(map(in_steps, programs), key=lambda each: each.id == program)
    return net


def opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    """Open a file of SUMO's, packed if its name ends with ``.gz``."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _elements(file: IO[bytes] | gzip.GzipFile, tag: str | None) -> Iterator[ET.Element]:
    """Yield the elements below the root, complete, and drop each: memory stays the same.

    Args:
        tag: that the root must have.
    """
    depth, root = 0, None
    for event, element in ET.iterparse(file, ("start", "end")):
        if event == "start":
            depth += 1
            if root is None:
                root = element
                if tag not in (None, element.tag):
                    raise ValueError(f"it begins with <{element.tag}>, not with <{tag}>")
        else:
            depth -= 1
            if depth == 1:
                yield element
                root.clear()  # type: ignore[union-attr]


def _read_edge(net: SumoNet, edge: ET.Element) -> None:
    name = edge.attrib["id"]
    if edge.get("function") == "crossing":
        net.crossings.add(name)
    if edge.get("function") not in _INNER:
        net.edges[name] = edge.get("from", ""), edge.get("to", "")
        if street := edge.get("name"):
            net.streets[name] = street
    for lane in edge.iterfind("lane"):
        known = SumoLane(
            lane.attrib["id"],
            name,
            float(lane.attrib["length"]),
            _points(lane.get("shape", "")),
            float(lane.get("speed", SumoLane.speed_limit)),
            float(lane.get("width", SumoLane.width_m)),
            _has_cars(lane.get("allow"), lane.get("disallow", "")),
        )
        net.lanes[known.id] = known


def _has_cars(allow: str | None, disallow: str) -> bool:
    """Return whether a lane with these attributes, lists of SUMO's classes, is for cars."""
    if allow is not None:
        return not {"passenger", "all"}.isdisjoint(allow.split())
    return {"passenger", "all"}.isdisjoint(disallow.split())


def _read_junction(net: SumoNet, node: ET.Element) -> None:
    net.places[node.attrib["id"]] = float(node.get("x", 0)), float(node.get("y", 0))
    inner = node.get("intLanes", "").split()
    for request in node.iterfind("request"):
        index, foes = int(request.attrib["index"]), reversed(request.get("foes", ""))
        for other, is_foe in enumerate(foes):  # netconvert writes the first foe last
            if is_foe == "1" and max(index, other) < len(inner):
                net.foes.add((inner[index], inner[other]))


def _read_connection(net: SumoNet, element: ET.Element) -> None:
    link = element.attrib
    lane, via = f"{link['from']}_{link.get('fromLane', 0)}", link.get("via")
    if link["from"].startswith(":") and via is not None:
        net.onwards[lane] = via
    to = link["to"]
    to_lane = f"{to}_{link.get('toLane', 0)}"
    turn = link.get("dir", "s").replace("T", "t")  # back, in a net that drives on the left
    # the rails of a level crossing have the signal of its road, but no letter
    is_controlled = "tl" in link and int(link["linkIndex"]) >= 0
    if not link["from"].startswith(":"):
        net.ways.append((lane, to_lane, turn))
    if not link["from"].startswith(":") and turn != "t":
        net.ahead[lane].add(to_lane)
        if not is_controlled:
            net.behind[to_lane].add(lane)
    if is_controlled:
        walked = to in net.crossings
        known = SumoLink(int(link["linkIndex"]), lane, to_lane, to, turn, via, walked)
        net.links[link["tl"]].append(known)


def _read_program(net: SumoNet, logic: ET.Element) -> None:
    """Add a program; one without phases moves the offset of a known one, as in SUMO."""
    name, programs = logic.get("programID", "0"), net.programs[logic.attrib["id"]]
    kind, offset = logic.get("type", "static"), logic.get("offset", "0")
    phases, remarks = read_phases((phase.attrib for phase in logic.iterfind("phase")), kind)
    for number, known in enumerate(programs):
        if known.id == name and not phases:
            programs[number] = replace(known, offset=offset)
            return
    params = {each.get("key", ""): each.get("value", "") for each in logic.iterfind("param")}
    programs.append(Program(name, kind, offset, phases, params, remarks))


def _read_switched(net: SumoNet, switched: ET.Element) -> None:
    net.switched[switched.attrib["junctionID"]] = switched.attrib["wautID"]


Reader = Callable[[SumoNet, ET.Element], None]
_READERS_OF_PROGRAMS: dict[str, Reader] = {"tlLogic": _read_program, "wautJunction": _read_switched}
_READERS: dict[str, Reader] = _READERS_OF_PROGRAMS | {
    "edge": _read_edge,
    "junction": _read_junction,
    "connection": _read_connection,
}


def _points(text: str) -> tuple[Point, ...]:
    pairs = (point.split(",") for point in text.split())
    return tuple((float(x), float(y)) for x, y, *_ in pairs)


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"an element has no {error.args[0]!r}"
    return str(error)
