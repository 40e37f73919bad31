"""The delay that a policy would have saved: a simulation with the demand of the logged counts."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import sumo

from models.evaluation.checks import check_signals
from models.evaluation.statistics import Estimate, estimate
from models.shadow.findings import COUNTED_S, Findings, Span
from models.simulation.controllers import Control, policy_control, run
from models.simulation.programs import own_programs
from models.simulation.scenario import InvalidScenarioError, RouteFiles, Scenario
from models.sumo.demand import Demand, Entry
from models.sumo.net import load_net
from models.sumo.routing import Roads, make_routes

DAY_S = 86_400
CANDIDATES = 20  # vehicles of each entry and exit whose routes are offered
GEH_OK = 5.0  # a modelled count that fits, DMRB volume 12, section 2.1

Counts = Mapping[tuple[str, int], int]  # vehicles by edge and stretch of COUNTED_S


class Saved(NamedTuple):
    """Delays in seconds per vehicle, of all seeds.

    Attributes:
        saved: under the programs less under the policy, seed by seed.
        counted: vehicles of the counts.
        fits: counts whose GEH is below GEH_OK with the sampled demand; ``of`` all counts.
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
    span = max(findings.spans, key=lambda each: each.end_s - each.begin_s)
    counts = edge_counts(findings, span, scenario)
    begin_s = int(span.begin_s) % DAY_S
    seconds = min(int(span.end_s - span.begin_s), DAY_S)
    offset_s = int(span.begin_s) - begin_s
    scenario = replace(scenario, begin_s=begin_s, end_s=begin_s + max(seconds, 1))
    check_signals(scenario)
    routes = _candidates(scenario, folder)
    delays: dict[str, list[float]] = {"programs": [], "policy": []}
    vehicles = fits = 0
    for seed in range(1, seeds + 1):
        sampled = folder / f"{seed}.rou.xml"
        fits = _sample(counts, offset_s, scenario, routes, sampled, seed)
        driven = replace(scenario, demand=RouteFiles((sampled,)))
        controls: dict[str, Control] = {
            "programs": own_programs(driven),
            "policy": policy_control(driven, policy),
        }
        for name, control in controls.items():
            metrics = run(
                replace(driven, guarded=driven.guarded and name == "policy"), seed, control
            )
            delays[name].append(metrics.time_loss_s)
            vehicles = metrics.demanded
    pairs = zip(delays["programs"], delays["policy"], strict=True)
    return Saved(
        estimate(delays["programs"]),
        estimate(delays["policy"]),
        estimate([before - after for before, after in pairs]),
        seeds,
        vehicles,
        sum(counts.values()),
        fits,
        len(counts),
        span.begin_s,
        span.end_s,
    )


def edge_counts(findings: Findings, span: Span, scenario: Scenario) -> Counts:
    """Return the vehicles on each edge with loops, without those where a detector has failed.

    Raises:
        InvalidScenarioError: nothing was counted.
    """
    net = load_net(scenario.net, scenario.program)
    by_lane = findings.vehicles[span.segment.segment]
    broken = findings.failed_lanes()
    unknown = {net.lanes[lane].edge for lane in broken & net.lanes.keys()}
    counts: Counter[tuple[str, int]] = Counter()
    for (lane, stretch), vehicles in by_lane.items():
        if lane in net.lanes and net.lanes[lane].edge not in unknown:
            counts[net.lanes[lane].edge, stretch] += vehicles
    stretches = range(int(span.begin_s // COUNTED_S), int(span.end_s // COUNTED_S) + 1)
    for edge in {edge for edge, _ in counts}:
        for stretch in stretches:
            counts[edge, stretch] += 0  # nothing was counted, which is a count
    if not counts:
        raise InvalidScenarioError(
            "The delay cannot be estimated: the log has no counts of working loops, which records"
            " with lane and occupied give."
        )
    return counts


def _candidates(scenario: Scenario, folder: Path) -> Path:
    """Write routes from every entry of the net to the exits that it reaches."""
    roads = Roads(scenario.net)
    entries = tuple(
        Entry(edge=edge, vehicles_per_hour=CANDIDATES * max(1, len(roads.exits)))
        for edge in roads.entries
        if roads.reachable(edge) & roads.exits.keys() - {edge}
    )
    routes, _ = make_routes(scenario.net, Demand(entries))
    path = folder / "candidates.rou.xml"
    path.write_text(routes)
    return path


def _sample(
    counts: Counts, offset_s: int, scenario: Scenario, routes: Path, output: Path, seed: int
) -> int:
    """Let SUMO's routeSampler write routes that have the counts; return how many fit."""
    measured, mismatch = output.with_suffix(".counts.xml"), output.with_suffix(".mismatch.xml")
    measured.write_text(_edge_data(counts, offset_s, scenario))
    home = Path(sumo.SUMO_HOME)
    command = [
        sys.executable,
        str(home / "tools" / "routeSampler.py"),
        f"--route-files={routes}",
        f"--edgedata-files={measured}",
        f"--output-file={output}",
        f"--mismatch-output={mismatch}",
        f"--seed={seed}",
        "--optimize=full",
        '--attributes=departLane="best" departSpeed="max"',
    ]
    environment = {**os.environ, "SUMO_HOME": str(home)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ran.returncode or not output.exists():
        said = next((line for line in reversed(ran.stderr.splitlines()) if line.strip()), "no word")
        raise InvalidScenarioError(f"SUMO's routeSampler cannot meet the counts: {said}")
    return sum(
        float(edge.get("GEH", "inf")) < GEH_OK for edge in ET.parse(mismatch).getroot().iter("edge")
    )


def _edge_data(counts: Counts, offset_s: int, scenario: Scenario) -> str:
    by_stretch: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for (edge, stretch), vehicles in counts.items():
        by_stretch[stretch][edge] = vehicles
    root = ET.Element("data")
    for stretch in sorted(by_stretch):
        begin_s = stretch * COUNTED_S - offset_s
        times = max(begin_s, scenario.begin_s), min(begin_s + COUNTED_S, scenario.end_s)
        if times[0] >= times[1]:
            continue
        interval = ET.SubElement(root, "interval", begin=f"{times[0]}", end=f"{times[1]}")
        for edge, vehicles in by_stretch[stretch].items():
            ET.SubElement(interval, "edge", id=edge, entered=f"{vehicles}")
    return ET.tostring(root, encoding="unicode")
