"""A comparison on a user's city: every controller with every seed, a page, and figures in CSV."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from html import unescape
from pathlib import Path
from typing import Any

from lab.evaluate.cases import POLICY, Case
from lab.evaluate.checks import check_routes, check_signals
from lab.evaluate.runs import SUMO, Run, make_runs, read_run
from lab.net.demand import InvalidDemandError
from lab.net.net import opened
from lab.processes import in_fresh_process
from lab.sim.controllers import CONTROLS, GUARDED, Control, policy_control, run
from lab.sim.details import roads_behind
from lab.sim.environment import layers_of
from lab.sim.metrics import Approach
from lab.sim.scenario import Scenario
from lab.tables import write_csv
from models.networks.file import network_as_json

RULES = (
    *("begin_s", "end_s", "decision_s", "yellow_s", "all_red_s", "min_green_s"),
    *("counts", "program", "bus_weight", "cyclic", "detectors"),
)
KEPT, RUNS = "runs", "runs.csv"
# <include href="...">, <rerouter file="...">, edgesFile="..." and the like, and XML's entities.
_NAMED = re.compile(rb"""(?:\w*[Ff]iles?|href|SYSTEM)\s*=?\s*["']([^"'<>]+)["']""")
# Files of what runs have of each part: by name, the measure, and the heads of the columns.
OF_PARTS = {
    "queues.csv": ("queues", ("signal", "standing")),
    "classes.csv": ("classes", ("class", "vehicles", "delay_s")),
    "approaches.csv": ("approaches", ("road", *Approach._fields)),
}
OWN_CHANGES = ("fixed time", "Webster")  # their programs have the changes of the net
COLUMNS = (
    *("controller", "seed", "delay_s", "waiting_s", "waiting_95_s", "longest_waiting_s", "trip_s"),
    *("stops", "co2_kg", "nox_g", "fuel_kg", "driven_km", "demanded", "arrived"),
    *("walks", "walk_delay_s", "walk_delay_95_s", "walk_delay_longest_s"),
    *("collisions", "teleports", "emergency_braking"),
)


@dataclass(frozen=True)
class Comparison:
    """What is compared.

    Attributes:
        policy: a file in the form of :mod:`models.policy.form`, if one is compared.
        seeds: of SUMO; the policy's training must not have had them.
        safety: whether controllers are also compared behind the safety layer.
        counted: vehicles per hour by approach, to which the page compares the traffic.

    Raises:
        InvalidDemandError: a road with a count is not an approach.
    """

    scenario: Scenario
    policy: Path | None
    seeds: range
    safety: bool = False
    counted: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        approaches = roads_behind(self.scenario.network)
        if other := next((each for each in self.counted if each not in approaches), None):
            raise InvalidDemandError(f"{other} has a count, but does not end at a signal.")

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        bare = [Case(each, each) for each in (*CONTROLS, *([POLICY] if self.policy else []))]
        guarded = [
            Case(f"{each.name}{GUARDED}", each.control, guarded=True)
            for each in bare
            if each.name not in OWN_CHANGES
        ]
        return (*bare, *guarded) if self.safety else tuple(bare)

    @property
    def controllers(self) -> tuple[str, ...]:
        return tuple(case.name for case in self.cases)

    def scenario_of(self, case: Case) -> Scenario:
        return replace(self.scenario, guarded=case.guarded, detailed=True)

    def control_of(self, case: Case) -> Control:
        """Return what controls the signals in a case."""
        return case.make(self.scenario_of(case), self.policy if case.is_policy else None)

    @cached_property
    def same(self) -> dict[str, str]:
        """What identifies kept runs of this traffic and these rules."""
        scenario = self.scenario
        digest = digest_of_files(scenario)
        digest.update(repr([getattr(scenario, name) for name in RULES]).encode())
        digest.update(repr(COLUMNS).encode())
        return {"sumo": SUMO, "city": digest.hexdigest()}

    def files(self, folder: Path) -> dict[Path, tuple[Case, int]]:
        """Return case and seed of each run, by the file that keeps it."""
        names = {case: case.name.replace(" ", "_") for case in self.cases}
        if self.policy is not None:  # each policy has separate runs
            weights = hashlib.blake2b(self.policy.read_bytes(), digest_size=8)
            for case in filter(lambda each: each.is_policy, names):
                names[case] += f"-{weights.hexdigest()}"
        return {
            folder / f"{name}-{seed}.json": (case, seed)
            for case, name in names.items()
            for seed in self.seeds
        }


def digest_of_files(scenario: Scenario) -> hashlib.blake2b:
    """Return a digest of the network, of SUMO's options and of all files that SUMO reads."""
    digest = hashlib.blake2b(network_as_json(scenario.network).encode(), digest_size=8)
    for path in all_inputs(scenario.files):
        digest.update(hashlib.blake2b(path.read_bytes()).digest())
    if scenario.configured is not None:
        digest.update(repr(scenario.configured.arguments).encode())
    return digest


def all_inputs(paths: Iterable[Path]) -> list[Path]:
    """Return files with all that they name, as far as those exist, each once, in a fixed order.

    Whatever an element names counts, so a file that is there and that SUMO would write counts, too.
    """
    found: dict[Path, None] = {}
    ahead = list(paths)
    while ahead:
        path = ahead.pop().resolve()
        if path not in found and path.is_file():
            found[path] = None
            ahead += [path.parent / name for name in _names(path)]
    return list(found)


def _names(path: Path) -> Iterable[str]:
    try:
        with opened(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error):
        return
    for text in _NAMED.findall(content):
        for name in unescape(text.decode(errors="replace")).split(","):
            if name := name.strip():
                yield name


def compare(comparison: Comparison, folder: Path, workers: int) -> list[Run]:
    """Make the runs that the folder lacks and write every figure; returns all runs.

    Raises:
        InvalidNetworkError, InvalidScenarioError, InvalidPolicyFileError: the files do not fit;
            nothing is written then.
        OSError: the folder cannot be written.
    """
    check_signals(comparison.scenario)
    if comparison.safety:
        layers_of(comparison.scenario)
    if comparison.policy is not None:
        policy_control(comparison.scenario, comparison.policy)
    files, same = comparison.files(folder / KEPT), comparison.same
    if any(read_run(path, same) is None for path in files):
        check_routes(comparison.scenario)
    jobs = {path: partial(_run, comparison, *cell, same) for path, cell in files.items()}
    runs = [Run.read(made) for made in make_runs(jobs, same, workers).values()]
    write_csv(folder / RUNS, COLUMNS, ([getattr(run, name) for name in COLUMNS] for run in runs))
    for name, (measure, heads) in OF_PARTS.items():
        rows = (
            (run.controller, run.seed, part, *(value if isinstance(value, tuple) else (value,)))
            for run in runs
            for part, value in getattr(run, measure).items()
        )
        write_csv(folder / name, ("controller", "seed", *heads), rows)
    return runs


def _run(comparison: Comparison, case: Case, seed: int, same: Mapping[str, str]) -> dict[str, Any]:
    cell = comparison.scenario_of(case), seed, comparison.control_of(case)
    metrics = in_fresh_process(partial(run, *cell))
    return asdict(Run.of(case.name, seed, metrics)) | dict(same)
