"""A comparison on a user's city: every controller with every seed, a page, and figures in CSV."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lab.evaluate.checks import check_policy, check_routes, check_safety, check_signals
from lab.evaluate.kept_runs import make_runs, read_run
from lab.sim.controllers import CONTROLS, GUARDED, Control, policy_control, run
from lab.sim.details import Approach, Details
from lab.sim.metrics import Metrics
from lab.sim.scenario import Scenario
from models.atomic_write import atomic_write
from models.networks.file import network_as_json

POLICY = "policy"
RULES = (
    *("begin_s", "end_s", "decision_s", "yellow_s", "all_red_s", "min_green_s"),
    *("counts", "program", "bus_weight", "cyclic", "detectors"),
)
KEPT, RUNS, QUEUES, CLASSES = "runs", "runs.csv", "queues.csv", "classes.csv"
APPROACHES = "approaches.csv"
OWN_CHANGES = ("fixed time", "Webster")  # their programs have the changes of the net
COLUMNS = (
    *("controller", "seed", "delay_s", "waiting_s", "waiting_95_s", "longest_waiting_s", "trip_s"),
    *("stops", "co2_kg", "nox_g", "fuel_kg", "driven_km", "demanded", "arrived"),
    *("walks", "walk_delay_s", "walk_delay_95_s", "walk_delay_longest_s"),
    *("collisions", "teleports", "emergency_braking"),
)


@dataclass(frozen=True)
class CityRun:
    """How one run went; times are means in seconds per vehicle of the demand.

    Attributes:
        delay_s: time loss and wait to depart, as RESCO defines it; a vehicle that never departed
            waits until the end.
        queues: by junction, mean number of standing vehicles on its incoming lanes.
        walks: of pedestrians; their delay is the time lost against walking freely.
        walk_delay_95_s: its 95th percentile.
        classes: by SUMO's class of vehicles, their number and delay.
        departures, approaches: and the other values, see :class:`.Details`.
    """

    controller: str
    seed: int
    delay_s: float
    waiting_s: float
    trip_s: float
    demanded: int
    arrived: int
    queues: Mapping[str, float]
    walks: int = 0
    walk_delay_s: float = 0.0
    walk_delay_95_s: float = 0.0
    walk_delay_longest_s: float = 0.0
    collisions: int = 0
    teleports: int = 0
    emergency_braking: int = 0
    classes: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    waiting_95_s: float = 0.0
    longest_waiting_s: float = 0.0
    stops: float = 0.0
    co2_kg: float = 0.0
    nox_g: float = 0.0
    fuel_kg: float = 0.0
    driven_km: float = 0.0
    departures: Sequence[int] = ()
    approaches: Mapping[str, Approach] = field(default_factory=dict)

    @classmethod
    def read(cls, made: Mapping[str, Any]) -> CityRun:
        """Return a run from the values of its JSON file."""
        approaches = {road: Approach(*values) for road, values in made["approaches"].items()}
        values = {name: made[name] for name in cls.__dataclass_fields__}
        return cls(**{**values, "approaches": approaches})

    @classmethod
    def of(cls, controller: str, seed: int, metrics: Metrics) -> CityRun:
        return cls(
            controller,
            seed,
            delay_s=round(metrics.time_loss_s, 3),
            waiting_s=round(metrics.waiting_s, 3),
            trip_s=round(metrics.travel_s, 3),
            demanded=metrics.demanded,
            arrived=metrics.arrived,
            queues={name: round(queue, 3) for name, queue in metrics.queues.items()},
            walks=metrics.walks.number,
            walk_delay_s=round(metrics.walks.mean_s, 3),
            walk_delay_95_s=round(metrics.walks.percentile_95_s, 3),
            walk_delay_longest_s=round(metrics.walks.longest_s, 3),
            **metrics.incidents._asdict(),
            classes={name: (n, round(loss, 3)) for name, (n, loss) in metrics.classes.items()},
            **({} if metrics.details is None else _rounded(metrics.details)),
        )


def _rounded(details: Details) -> dict[str, Any]:
    values = {name: getattr(details, name) for name in details.__dataclass_fields__}
    rounded = {name: round(each, 3) for name, each in values.items() if isinstance(each, float)}
    approaches = {
        road: Approach(*(round(each, 3) for each in approach))
        for road, approach in details.approaches.items()
    }
    return {**values, **rounded, "approaches": approaches}


@dataclass(frozen=True)
class Comparison:
    """What is compared.

    Attributes:
        policy: a file in the form of :mod:`models.policy.form`, if one is compared.
        seeds: of SUMO; the policy's training must not have had them.
        safety: whether controllers are also compared behind the safety layer.
    """

    scenario: Scenario
    policy: Path | None
    seeds: range
    safety: bool = False

    @property
    def controllers(self) -> tuple[str, ...]:
        bare = tuple(CONTROLS) if self.policy is None else (*CONTROLS, POLICY)
        guarded = [f"{each}{GUARDED}" for each in bare if each not in OWN_CHANGES]
        return (*bare, *guarded) if self.safety else bare

    def scenario_of(self, controller: str) -> Scenario:
        return replace(self.scenario, guarded=controller.endswith(GUARDED), detailed=True)

    @cached_property
    def same(self) -> dict[str, str]:
        """What identifies kept runs of this traffic and these rules."""
        scenario = self.scenario
        digest = digest_of_files(scenario)
        digest.update(repr([getattr(scenario, name) for name in RULES]).encode())
        digest.update(repr(COLUMNS).encode())
        return {"sumo": version("eclipse-sumo"), "city": digest.hexdigest()}

    def files(self, folder: Path) -> dict[Path, tuple[str, int]]:
        """Return controller and seed of each run, by the file that keeps it."""
        names = {each: each.replace(" ", "_") for each in self.controllers}
        if self.policy is not None:  # each policy has separate runs
            weights = hashlib.blake2b(self.policy.read_bytes(), digest_size=8)
            for each in names:
                if each.removesuffix(GUARDED) == POLICY:
                    names[each] += f"-{weights.hexdigest()}"
        return {
            folder / f"{name}-{seed}.json": (controller, seed)
            for controller, name in names.items()
            for seed in self.seeds
        }


def digest_of_files(scenario: Scenario) -> hashlib.blake2b:
    """Return a digest of the network and of the files that SUMO reads."""
    digest = hashlib.blake2b(network_as_json(scenario.network).encode(), digest_size=8)
    for path in scenario.files:
        digest.update(hashlib.blake2b(path.read_bytes()).digest())
    return digest


def compare(comparison: Comparison, folder: Path, workers: int) -> list[CityRun]:
    """Make the runs that the folder lacks and write every figure; returns all runs.

    Raises:
        InvalidNetworkError, InvalidScenarioError, InvalidPolicyFileError: the files do not fit;
            nothing is written then.
        OSError: the folder cannot be written.
    """
    check_signals(comparison.scenario)
    if comparison.safety:
        check_safety(comparison.scenario)
    if comparison.policy is not None:
        check_policy(comparison.scenario, comparison.policy)
    files, same = comparison.files(folder / KEPT), comparison.same
    if any(read_run(path, same) is None for path in files):
        check_routes(comparison.scenario)
    jobs = {path: partial(_run, comparison, *cell, same) for path, cell in files.items()}
    runs = [CityRun.read(made) for made in make_runs(jobs, same, workers).values()]
    tables = {
        RUNS: _of_runs(runs),
        QUEUES: _of_queues(runs),
        CLASSES: _of_classes(runs),
        APPROACHES: _of_approaches(runs),
    }
    for name, rows in tables.items():
        write_csv(folder / name, rows)
    return runs


def _run(
    comparison: Comparison, controller: str, seed: int, same: Mapping[str, str]
) -> dict[str, Any]:
    scenario = comparison.scenario_of(controller)
    metrics = run(scenario, seed, control_of(comparison, controller))
    return asdict(CityRun.of(controller, seed, metrics)) | dict(same)


def control_of(comparison: Comparison, controller: str) -> Control:
    """Return what controls the signals under a controller's name."""
    scenario, bare = comparison.scenario_of(controller), controller.removesuffix(GUARDED)
    if bare == POLICY and comparison.policy is not None:
        return policy_control(scenario, comparison.policy)
    return CONTROLS[bare](scenario)


def _of_runs(runs: Sequence[CityRun]) -> Iterable[Sequence[object]]:
    yield COLUMNS
    for each in runs:
        yield [getattr(each, name) for name in COLUMNS]


def _of_queues(runs: Sequence[CityRun]) -> Iterable[Sequence[object]]:
    yield "controller", "seed", "signal", "standing"
    for each in runs:
        for signal, standing in each.queues.items():
            yield each.controller, each.seed, signal, standing


def _of_classes(runs: Sequence[CityRun]) -> Iterable[Sequence[object]]:
    yield "controller", "seed", "class", "vehicles", "delay_s"
    for each in runs:
        for name, (number, delay_s) in each.classes.items():
            yield each.controller, each.seed, name, number, delay_s


def _of_approaches(runs: Sequence[CityRun]) -> Iterable[Sequence[object]]:
    yield "controller", "seed", "road", *Approach._fields
    for each in runs:
        for road, approach in each.approaches.items():
            yield each.controller, each.seed, road, *approach


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    with atomic_write(path) as file:
        file.write(text.getvalue().encode())
