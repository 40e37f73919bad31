"""The one loop over controllers, traffic and seeds: a job is a run to make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import libsumo

from lab.evaluate.cases import RESCO, STUDIES, Case, Traffic, with_margins
from lab.evaluate.runs import SUMO, Run, make_runs, read_runs, write_runs
from lab.processes import in_fresh_process
from lab.sim.controllers import Control, open_run
from lab.sim.daily_demand import DailyDemand
from lab.sim.environment import vehicles_within
from lab.sim.scenario import Scenario
from lab.sim.simulator import Change
from models.networks.shipped import SHIPPED
from models.policy.file import read_weights
from models.policy.form import SHIPPED_POLICY
from models.policy.training_record import read_record

TUNED = "pressure within 100 m"
SAME = {"sumo": SUMO}
SEEN_M = 200.0  # before the stop line, in RESCO's queues


class Job(NamedTuple):
    """A run to make.

    Attributes:
        policy: file of the weights, if the case is a policy.
        maps: folder of RESCO's maps.
    """

    traffic: Traffic
    case: Case
    seed: int
    policy: Path | None = None
    maps: Path | None = None

    @property
    def version(self) -> str:
        if self.case.control == TUNED:
            return f"lead {self.traffic.lead:g}"
        return self.case.version(self.policy)

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.case.name, self.version, self.traffic.name, self.seed

    @property
    def scenario(self) -> Scenario:
        hour = replace(self.traffic.scenario(self.seed, self.maps), lead=self.traffic.lead)
        return self.case.ruled(with_margins(hour), self.policy)

    def control(self, scenario: Scenario) -> Control:
        return self.case.make(scenario, self.policy)


def plan_jobs(study: str, seeds: range, policy: Path, maps: Path | None = None) -> list[Job]:
    """Return every controller of a study in its traffic; each group is complete seed by seed.

    Args:
        policy: in place of the shipped file with such a record; for maps, a folder with a file
            ``<map>.th`` for each that has one.

    Raises:
        InvalidPolicyFileError: a policy's file cannot be used.
    """
    jobs = []
    if study != RESCO:
        read_weights(policy, SHIPPED)
    for group in STUDIES[study].values():
        for seed in seeds[: group.seeds]:
            for traffic, case in group.cells():
                path = _policy_of(traffic, case, policy)
                if case.control and (path is None or path.exists()):
                    jobs.append(Job(traffic, case, seed, path, maps))
    return jobs


def _policy_of(traffic: Traffic, case: Case, policy: Path) -> Path | None:
    if not case.is_policy:
        return None
    if traffic.begin is None:
        return policy / f"{traffic.name}.th"
    shipped = SHIPPED_POLICY.with_name(case.weights)
    return policy if read_record(policy) == read_record(shipped) else shipped


def evaluate(
    jobs: Sequence[Job], file: Path, folder: Path, workers: int, columns: Sequence[str]
) -> list[Run]:
    """Make the runs that a CSV lacks, and add them; returns those of the jobs, in their order.

    Args:
        folder: where runs are kept until all are made.
    """
    runs = {run.key: run for run in read_runs(file)}
    missing = {
        folder / _file_name(job): partial(run_job, job) for job in jobs if job.key not in runs
    }
    for made in make_runs(missing, SAME, workers).values():
        run = Run.read(made)
        runs[run.key] = run
    if missing:
        write_runs(file, runs.values(), columns)
    return [runs[job.key] for job in jobs]


def _file_name(job: Job) -> str:
    words = "-".join(map(str, job.key))
    return "".join(each if each.isalnum() else "_" for each in words) + ".json"


def run_job(job: Job) -> dict[str, Any]:
    """Simulate one run."""
    scenario = job.scenario
    control, name = job.control(scenario), job.case.name
    run = partial(measured, scenario, job.seed, control, name)
    return asdict(in_fresh_process(partial(run, traffic=job.traffic.name, version=job.version)))


def measured(
    scenario: Scenario, seed: int, control: Control, controller: str, **labels: Any
) -> Run:
    """Simulate a run in this process, and return its record.

    Only traffic that is not drawn has RESCO's queues.
    """
    queues = None if isinstance(scenario.demand, DailyDemand) else RescoQueues(scenario)
    with open_run(scenario, seed, control) as (environment, decides, observations):
        while not environment.is_over:
            if queues is not None:
                queues.look()
            observations = environment.step(decides.act(observations))
        reds_s = longest_reds(scenario, environment.changes, environment.time_s)
        more = {"walk_red_s": float(max(reds_s, default=0))}
        if queues is not None:
            more["resco_queue"] = queues.mean
        return Run.of(controller, seed, environment.metrics(), **labels, **more)


class RescoQueues:
    """Counts queues at each decision as RESCO does.

    A vehicle is in a queue from the first decision at which it stands until it has left the
    signal's incoming lanes (``traffic_signal.py`` and ``utils/readCSV.py`` of ``resco_benchmark``
    at https://github.com/Pi-Star-Lab/RESCO, revision fc65e91).
    """

    def __init__(self, scenario: Scenario) -> None:
        self._lanes = [[lane.id for lane in each.lanes] for each in scenario.network.junctions]
        self._queued: list[set[str]] = [set() for _ in self._lanes]
        self._total = self._n_looks = 0

    def look(self) -> None:
        for lanes, queued in zip(self._lanes, self._queued, strict=True):
            seen = {vehicle for lane in lanes for vehicle in vehicles_within(lane, SEEN_M)}
            queued &= seen
            queued |= {each for each in seen if libsumo.vehicle.getWaitingTime(each) > 0}
            self._total += len(queued)
        self._n_looks += 1

    @property
    def mean(self) -> float:
        """The mean over decisions and signals, of which RESCO's code counts one too many."""
        return self._total / max(1, self._n_looks) / (len(self._lanes) + 1)


def longest_reds(scenario: Scenario, changes: Sequence[Change], end_s: int) -> Iterator[float]:
    """Yield for how many seconds each crossing was red at most until the end."""
    for junction in scenario.network.junctions:
        shown = [each for each in changes if each.signal == junction.id]
        for place, link in junction.placed_links:
            if link.crossing is None or not shown:
                continue
            green_s, longest_s, red = float(scenario.begin_s), 0.0, True
            for change in (*shown, Change(end_s, junction.id, "G" * len(shown[0].state))):
                walks = change.state[place] in "Gg"
                if walks and red:
                    longest_s = max(longest_s, change.time_s - green_s)
                elif not walks and not red:
                    green_s = change.time_s
                red = not walks
            yield longest_s
