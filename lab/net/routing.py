"""Routes for a city from its counts, made by SUMO's routers.

Where turning shares are known, jtrrouter follows them. Otherwise every vehicle draws a destination,
and duarouter looks for the fastest way in an empty city.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import sumo

from lab.net.demand import Demand, InvalidDemandError
from lab.net.net import SumoNet, load_net
from lab.processes import RunFolder, run_child

# Vehicles enter on the emptiest lane and do not wait for a full one.
DEPARTURE = {"departLane": "best", "departSpeed": "max"}

SHOWN_NAMES = 10  # of a list in a message

Weights = Mapping[str, float]  # of exits
Attributes = Mapping[str, object]


def make_routes(net: Path, demand: Demand) -> tuple[str, list[str]]:
    """Return a SUMO route file, and remarks of a sentence each.

    Raises:
        InvalidNetworkError: the net cannot be read.
        InvalidDemandError: an edge is not there or leads nowhere, or SUMO refuses; one sentence.
    """
    roads = load_net(net)
    _check_edges(net, demand, roads)
    if demand.turns:
        return _by_turns(net, demand, roads), []
    weights = {each.edge: each.weight for each in demand.exits} or {
        edge: len(roads.edge_lanes[edge]) for edge in roads.exits
    }
    if not weights:
        raise InvalidDemandError(f"{net} has no exits. Name edges where trips end with --exits.")
    remarks: list[str] = []
    drawn = {
        each.edge: _weights_from(each.edge, weights, roads, remarks) for each in demand.entries
    }
    if closed := [entry for entry, exits in drawn.items() if not exits]:
        raise InvalidDemandError(
            f"No exit can be reached from {_listed('entry', 'entries', closed)}."
        )
    if lost := [edge for edge in weights if not any(edge in each for each in drawn.values())]:
        if demand.exits:
            raise InvalidDemandError(f"The exit {lost[0]} cannot be reached from any entry.")
        remarks.append(f"{len(lost)} exits of the net cannot be reached from any entry.")
    return _by_exits(net, demand, drawn), remarks


def _check_edges(net: Path, demand: Demand, roads: SumoNet) -> None:
    named = [
        *(("an entry", each.edge) for each in demand.entries),
        *(("an exit", each.edge) for each in demand.exits),
        *(("a turn", edge) for each in demand.turns for edge in (each.start, each.to)),
    ]
    if unknown := [(what, edge) for what, edge in named if edge not in roads.roads]:
        what, _ = unknown[0]
        edges = _listed("edge", "edges", list(dict.fromkeys(edge for _, edge in unknown)))
        raise InvalidDemandError(f"{net} has no {edges} for cars, which {what} names.")
    connected = {(here.edge, there.edge) for here, there, _ in roads.pairs}
    for turn in demand.turns:
        if (turn.start, turn.to) not in connected:
            raise InvalidDemandError(f"{net} has no turn from {turn.start} to {turn.to}.")
    for start in dict.fromkeys(turn.start for turn in demand.turns):
        if not any(turn.share for turn in demand.turns if turn.start == start):
            raise InvalidDemandError(
                f"All shares from {start} are 0: name the turns that its vehicles take."
            )


def _listed(singular: str, plural: str, names: Sequence[str]) -> str:
    """Return names in words: ``edge a``; ``edges a, b, c and 4 more``."""
    if len(names) == 1:
        return f"{singular} {names[0]}"
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"{plural} {', '.join(names[:SHOWN_NAMES])}{more}"


def _weights_from(entry: str, weights: Weights, roads: SumoNet, remarks: list[str]) -> Weights:
    """Return the exits for vehicles of an entry; none turns round at once."""
    reachable = roads.reachable(entry) - {entry}
    there = {edge: weight for edge, weight in weights.items() if edge in reachable and weight > 0}
    if there and len(there) < len(weights):
        missing = next(edge for edge in weights if edge not in there)
        remarks.append(f"From {entry}, {missing} is not reached; its share goes to others.")
    origin = roads.edges[entry][0]
    onwards = {edge: there[edge] for edge in there if roads.edges[edge][1] != origin}
    return onwards or there


def _by_exits(net: Path, demand: Demand, exits: Mapping[str, Weights]) -> str:
    random = np.random.default_rng(demand.seed)
    flows = []
    for entry in demand.entries:
        weights = exits[entry.edge]
        shares = np.array(list(weights.values()), float)
        for begin_s, end_s, vehicles in demand.vehicles(entry):
            drawn = random.multinomial(vehicles, shares / shares.sum())
            flows += [
                _flow(begin_s, end_s, n, {"from": entry.edge, "to": edge})
                for edge, n in zip(weights, drawn, strict=True)
                if n
            ]
    return _routed("duarouter", net, demand, flows)


def _by_turns(net: Path, demand: Demand, roads: SumoNet) -> str:
    flows = [
        _flow(begin_s, end_s, vehicles, {"from": entry.edge})
        for entry in demand.entries
        for begin_s, end_s, vehicles in demand.vehicles(entry)
        if vehicles
    ]
    known: dict[str, dict[str, float]] = {}
    for turn in demand.turns:
        known.setdefault(turn.start, {})[turn.to] = turn.share
    interval = ET.Element("interval", begin=str(demand.begin_s), end=str(demand.end_s))
    for start, ways in roads.roads.items():
        for to, share in known.get(start, ways).items():
            relation = {"from": start, "to": to, "probability": str(share)}
            ET.SubElement(interval, "edgeRelation", relation)
    shares = f"<edgeRelations>{ET.tostring(interval, encoding='unicode')}</edgeRelations>"
    ends = [edge for edge in roads.exits if edge not in known]
    return _routed("jtrrouter", net, demand, flows, shares, ends)


def _flow(begin_s: int, end_s: int, vehicles: int, ways: Attributes) -> dict[str, str]:
    times = {"begin": begin_s, "end": end_s, "number": vehicles}
    return {name: str(value) for name, value in {**times, **ways, **DEPARTURE}.items()}


def _routed(
    router: str,
    net: Path,
    demand: Demand,
    flows: Sequence[Mapping[str, str]],
    turns: str = "",
    ends: Iterable[str] = (),
) -> str:
    """Let a router of SUMO make vehicles of flows, at random moments of their times."""
    if not flows:
        raise InvalidDemandError("The counts come to no vehicle at all.")
    with RunFolder() as folder:
        requested, made, shares = (
            Path(folder, name) for name in ("flows.xml", "made.xml", "turns.xml")
        )
        requested.write_text(_flows_file(flows))
        command = [
            str(Path(sumo.SUMO_HOME, "bin", router)),
            f"--net-file={net}",
            f"--route-files={requested}",
            f"--output-file={made}",
            f"--seed={demand.seed}",
            "--randomize-flows",
            "--no-step-log",
            "--no-warnings",
        ]
        if turns:
            shares.write_text(turns)
            command += [f"--turn-ratio-files={shares}", f"--sink-edges={','.join(ends)}"]
            command += ["--allow-loops"]  # where shares are all that is known, some drive round
        ran = run_child(command)
        if ran.returncode:
            said = next((line for line in ran.stderr.splitlines() if line.strip()), "no reason")
            raise InvalidDemandError(f"SUMO's {router} makes no routes: {said}")
        # without the router's remark, which says when and in which folder it ran
        routes = re.sub(r"<!--.*?-->\n", "", made.read_text(), flags=re.DOTALL)
    lost = sum(int(flow["number"]) for flow in flows) - routes.count("<vehicle ")
    if lost:
        raise InvalidDemandError(f"SUMO's {router} finds no way for {lost} of the vehicles.")
    return routes


def _flows_file(flows: Sequence[Mapping[str, str]]) -> str:
    root = ET.Element("routes")
    for number, flow in enumerate(sorted(flows, key=lambda each: int(each["begin"]))):
        ET.SubElement(root, "flow", {"id": f"flow{number}", **flow})
    return ET.tostring(root, encoding="unicode")
