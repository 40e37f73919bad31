"""The delay that a policy would have saved: a simulation with the demand of the logged counts."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import ceil, floor
from pathlib import Path
from typing import NamedTuple

import sumo

from lab.evaluate.checks import check_signals
from lab.evaluate.statistics import GEH_OK, Estimate, estimate
from lab.net.demand import Demand, Entry
from lab.net.net import load_net
from lab.net.routing import make_routes
from lab.processes import run_child
from lab.shadow.findings import COUNTED_S, Findings, Span
from lab.sim.controllers import Control, policy_control, run
from lab.sim.programs import own_programs
from lab.sim.scenario import InvalidScenarioError, RouteFiles, Scenario

DAY_S = 86_400
SPARE_S = COUNTED_S / 20
CANDIDATES = 20  # vehicles of each entry and exit whose routes are offered
# Vehicles of a route and stretch that change after sampling: without a bound, few routes remain.
MAX_CHANGE = 5
SAMPLE_TIMEOUT_S = 600.0

Counts = Mapping[tuple[str, int], int]  # vehicles by edge and stretch of COUNTED_S


class Saved(NamedTuple):
    """Delays in seconds per vehicle, of all seeds.

    Attributes:
        saved: under the programs less under the policy, seed by seed.
        vehicles: of a simulation, mean of the seeds.
        counted: vehicles of the counts.
        fits: counts whose GEH is below GEH_OK with a seed's sampled demand; ``of`` all counts of
            all seeds.
    """

    programs: Estimate
    policy: Estimate
    saved: Estimate
    seeds: int
    vehicles: int
    counted: int
    fits: int
    of: int
    begin_s: float
    end_s: float


def estimate_saved(
    findings: Findings, scenario: Scenario, policy: Path, seeds: int, folder: Path
) -> Saved:
    """Simulate the longest segment under the net's programs and under a policy.

    Every seed samples other routes with the same counts.

    Args:
        scenario: its demand, begin and end are replaced.
        folder: for the routes.

    Raises:
        InvalidScenarioError: the log has no counts, or they fit no route.
        InvalidDemandError, InvalidNetworkError, InvalidPolicyFileError: a file cannot be used.
    """
    span = max(findings.spans, key=lambda each: len(stretches(each)))
    counts = edge_counts(findings, span, scenario)
    day_s = int(span.begin_s) // DAY_S * DAY_S  # SUMO's clock counts from its midnight, in UTC
    times_s = [stretch * COUNTED_S - day_s for stretch in stretches(span)]
    scenario = replace(scenario, begin_s=times_s[0], end_s=times_s[-1] + COUNTED_S)
    check_signals(scenario)
    routes = _candidates(scenario, folder)
    delays: dict[str, list[float]] = {"programs": [], "policy": []}
    vehicles = fits = 0
    for seed in range(1, seeds + 1):
        sampled = folder / f"{seed}.rou.xml"
        fits += _sample(counts, day_s, routes, sampled, seed)
        driven = replace(scenario, demand=RouteFiles((sampled,)))
        controls: dict[str, Control] = {
            "programs": own_programs(driven),
            "policy": policy_control(driven, policy),
        }
        for name, control in controls.items():
            metrics = run(
                replace(driven, guarded=driven.guarded and name == "policy"), seed, control
            )
            delays[name].append(metrics.delay_s)
        vehicles += metrics.demanded  # the same under both
    pairs = zip(delays["programs"], delays["policy"], strict=True)
    return Saved(
        estimate(delays["programs"]),
        estimate(delays["policy"]),
        estimate([before - after for before, after in pairs]),
        seeds,
        round(vehicles / seeds),
        sum(counts.values()),
        fits,
        seeds * len(counts),
        float(scenario.begin_s + day_s),
        float(scenario.end_s + day_s),
    )


def edge_counts(findings: Findings, span: Span, scenario: Scenario) -> Counts:
    """Return the vehicles on each edge with loops, without those where a detector has failed.

    A junction with a count has loops on all its lanes.

    Raises:
        InvalidScenarioError: nothing was counted.
    """
    lanes = scenario.sumo_net.lanes
    by_lane = findings.vehicles[span.segment.segment]
    counted, broken = {lane for lane, _ in by_lane}, findings.failed_lanes()
    unknown = {lanes[lane].edge for lane in broken & lanes.keys()}
    known = {
        lane.id: lanes[lane.id].edge
        for junction in scenario.network.junctions
        if any(lane.id in counted for lane in junction.lanes)
        for lane in junction.lanes
        if lane.id in lanes and lanes[lane.id].edge not in unknown
    }
    counts = dict.fromkeys(product(sorted(set(known.values())), stretches(span)), 0)
    for (lane, stretch), vehicles in by_lane.items():
        if (known.get(lane, ""), stretch) in counts:
            counts[known[lane], stretch] += vehicles
    if not counts:
        raise InvalidScenarioError(
            "The delay cannot be estimated: the log has no counts of working loops, which records"
            " with lane and occupied give, for a whole quarter of an hour."
        )
    return counts


def stretches(span: Span) -> range:
    """Return the stretches of COUNTED_S that a segment's first day covers, but for a twentieth."""
    first = ceil((span.begin_s - SPARE_S) / COUNTED_S)
    return range(first, floor((span.end_s + SPARE_S) / COUNTED_S))[: DAY_S // COUNTED_S]


def _candidates(scenario: Scenario, folder: Path) -> Path:
    """Write routes from every entry of the net to the exits that it reaches."""
    roads = load_net(scenario.net)
    entries = tuple(
        Entry(edge=edge, vehicles_per_hour=CANDIDATES * max(1, len(roads.exits)))
        for edge in roads.entries
        if roads.reachable(edge).intersection(roads.exits) - {edge}
    )
    routes, _ = make_routes(scenario.net, Demand(entries))
    path = folder / "candidates.rou.xml"
    path.write_text(routes)
    return path


def _sample(counts: Counts, day_s: int, routes: Path, output: Path, seed: int) -> int:
    """Let SUMO's routeSampler write routes that have the counts; return how many fit."""
    measured, mismatch = output.with_suffix(".counts.xml"), output.with_suffix(".mismatch.xml")
    measured.write_text(_edge_data(counts, day_s))
    home = Path(sumo.SUMO_HOME)
    command = [
        sys.executable,
        str(home / "tools" / "routeSampler.py"),
        f"--route-files={routes}",
        f"--edgedata-files={measured}",
        f"--output-file={output}",
        f"--mismatch-output={mismatch}",
        f"--seed={seed}",
        "--weighted",  # by the routes' shares among the candidates
        f"--optimize={MAX_CHANGE}",
        '--attributes=departLane="best" departSpeed="max"',
    ]
    environment = {**os.environ, "SUMO_HOME": str(home)}
    try:
        ran = run_child(command, SAMPLE_TIMEOUT_S, environment)
    except subprocess.TimeoutExpired:
        raise InvalidScenarioError(
            f"SUMO's routeSampler did not end within {SAMPLE_TIMEOUT_S:.0f} s."
        ) from None
    if ran.returncode or not output.exists():
        said = next((line for line in reversed(ran.stderr.splitlines()) if line.strip()), "no word")
        raise InvalidScenarioError(f"SUMO's routeSampler cannot meet the counts: {said}")
    return sum(
        float(edge.get("GEH", "inf")) < GEH_OK for edge in ET.parse(mismatch).getroot().iter("edge")
    )


def _edge_data(counts: Counts, day_s: int) -> str:
    by_stretch: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for (edge, stretch), vehicles in counts.items():
        by_stretch[stretch][edge] = vehicles
    root = ET.Element("data")
    for stretch in sorted(by_stretch):
        begin_s = stretch * COUNTED_S - day_s
        times = {"begin": f"{begin_s}", "end": f"{begin_s + COUNTED_S}"}
        interval = ET.SubElement(root, "interval", times)
        for edge, vehicles in by_stretch[stretch].items():
            ET.SubElement(interval, "edge", id=edge, entered=f"{vehicles}")
    return ET.tostring(root, encoding="unicode")
