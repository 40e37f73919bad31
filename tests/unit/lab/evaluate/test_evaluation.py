"""The evaluation's arithmetic and its reports; runs are kept and not repeated."""

import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lab.evaluate import __main__ as evaluate
from lab.evaluate import jobs as jobs_of
from lab.evaluate.__main__ import REPORTED, RUNS_FILE
from lab.evaluate.cases import LEVELS, POLICY, RESCO, STUDIES, names
from lab.evaluate.jobs import Job, plan_jobs
from lab.evaluate.report import (
    DIAGNOSED_POLICY,
    RUSH_HOUR,
    SAFE_POLICY,
    capacity_table,
    detector_table,
    persons_table,
)
from lab.evaluate.runs import SUMO, Run, read_runs
from lab.sim.controllers import GUARDED
from lab.sim.programs import Programs
from models.networks.shipped import SHIPPED
from models.policy.form import SHIPPED_POLICY
from models.policy.training_record import TrainingRecord, write_record

COMPARED, OUTAGES = STUDIES[POLICY]["compared"], STUDIES[POLICY]["outages"]
LOW = "low, 21:00"
NEED_A_RUN = "longest queue", "max pressure", "pressure within 100 m"


def make_run(controller: str, seed: int, delay_s: float, traffic: str = LOW) -> Run:
    times_s, counts = (delay_s, 20.0, 120.0), (3700, 3600)
    return Run(*times_s, *counts, controller=controller, seed=seed, traffic=traffic, queue=31.5)


@pytest.mark.parametrize(("study", "report"), [(POLICY, "policy.md"), ("cyclic", "phase_order.md")])
def test_the_committed_reports_are_written_again_from_their_runs_alone(tmp_path, study, report):
    kept, written = {run.key: run for run in read_runs(RUNS_FILE)}, REPORTED[study]
    jobs = plan_jobs(study, range(1, 1 + written.seeds), SHIPPED_POLICY)
    written.report([kept[job.key] for job in jobs], tmp_path / "runs.csv")
    assert (tmp_path / report).read_text() == RUNS_FILE.with_name(report).read_text()


def test_pedestrians_have_columns_where_some_walk():
    cells = dict.fromkeys(c for g in STUDIES["persons"].values() for c in g.cells())
    runs = [
        replace(make_run(case.name, seed, 50.0, traffic.name), walks=7 * ("and" in traffic.name))
        for traffic, case in cells
        for seed in (1, 2)
    ]
    lines = persons_table(runs).splitlines()
    assert len(lines) == 2 + len(cells)
    assert len({line.count("|") for line in lines}) == 1
    row = f"| medium, 12:00 | policy{GUARDED} | 50.0 ± 0.0 | 0.0 ± 0.0 % |  |"
    assert row in lines[2]
    assert "| 50.0 ± 0.0 |  | 7 | 0.0 ± 0.0 |" in lines[-1]


def test_every_case_of_every_study_can_be_made():
    observations = {each.id: [0.0] * each.obs_size for each in SHIPPED.junctions.values()}
    seen = set()
    for study in STUDIES.keys() - {RESCO}:
        for job in plan_jobs(study, range(1, 2), SHIPPED_POLICY):
            scenario = job.scenario
            assert (scenario.guarded, scenario.cyclic) == (job.case.guarded, job.case.cyclic)
            seen.add(job.case)
            if job.case.control in NEED_A_RUN or job.case.lost:
                continue
            control = job.control(scenario)
            if not isinstance(control, Programs):
                control(None).act(observations)  # type: ignore[arg-type]
    assert len(seen) > 25


def test_the_capacity_is_the_last_demand_of_which_enough_is_served():
    group = STUDIES["capacity"]["compared"]
    served = dict.fromkeys(names(group.traffic), 960) | {"steady, 0.7": 990, "steady, 0.8": 980}
    runs = [
        replace(make_run(case, 1, 40.0, traffic), served=served[traffic], demanded=1000 + at)
        for case in names(group.cases)
        for at, traffic in enumerate(served)
    ]
    heads, _, first, *_ = capacity_table(runs).splitlines()
    assert heads.startswith("| | 1000/h | 1001/h |")
    assert first.startswith("| fixed time | 99 % | 98 % | 96 % |")
    assert first.endswith("| 1001 |")


def test_each_layout_of_detectors_has_a_row_and_runs_of_the_policy_are_not_repeated():
    jobs = plan_jobs("detectors", range(1, 3), SHIPPED_POLICY)
    known = [job for job in jobs if not job.scenario.detectors]
    assert {job.traffic.name for job in known} == {RUSH_HOUR, "medium, 12:00"}
    of_policy = {job.key for job in jobs if job.case.is_policy}
    assert of_policy & {job.key for job in plan_jobs(POLICY, range(1, 3), SHIPPED_POLICY)}
    table = detector_table(
        [make_run(job.case.name, job.seed, 50, job.traffic.name) for job in jobs]
    )
    assert "Time loss by layout of detectors, 2 seeds" in table
    assert "| | policy | longest queue |" in table
    assert f"| {RUSH_HOUR}, stop-line | 50.0 ± 0.0 | 50.0 ± 0.0 |" in table


def test_a_policy_takes_the_place_of_the_shipped_one_with_the_same_record(tmp_path):
    safe = tmp_path / "safe.th"
    safe.write_bytes(SHIPPED_POLICY.read_bytes())
    write_record(safe, TrainingRecord(True, "all"))
    jobs = [job for job in plan_jobs(POLICY, range(1, 2), safe) if job.policy == safe]
    other_hours = names(STUDIES[POLICY]["hours"].traffic)
    assert [job.traffic.name for job in jobs] == [*LEVELS, *other_hours]
    assert {job.case.name for job in jobs} == {SAFE_POLICY}
    assert {(job.scenario.guarded, job.scenario.counts) for job in jobs} == {(True, "all")}


def test_policies_count_for_the_plan_that_replaces_them_and_the_limits_of_their_detectors():
    of_versions = defaultdict(set)
    for job in plan_jobs(POLICY, range(1, 2), SHIPPED_POLICY):
        if job.policy:
            of_versions[job.version].add(job.case.name)
    assert len(of_versions) == 5
    with_more = [names for version, names in of_versions.items() if " " in version]
    with_plan = {each.name for each in OUTAGES.cases if each.fallback == "plan"}
    assert sorted(with_more, key=len) == [{DIAGNOSED_POLICY}, with_plan]


def run_quietly(job: Job) -> dict[str, Any]:
    controller, version, traffic, seed = job.key
    run = replace(make_run(controller, seed, 50.0, traffic), version=version, sumo=SUMO)
    return vars(run)


def run_again(job: Job) -> NoReturn:
    raise AssertionError(f"{job} has been run before")


def test_runs_that_the_file_or_the_folder_has_are_not_made_again(tmp_path, monkeypatch):
    jobs = [Job(COMPARED.traffic[0], COMPARED.cases[1], seed) for seed in (1, 2, 1)]
    monkeypatch.setattr(jobs_of, "run_job", run_quietly)
    file, folder = tmp_path / "runs.csv", tmp_path / "unfinished"

    def made(folder: Path) -> list[tuple[int, float]]:
        runs = jobs_of.evaluate(jobs, file, folder, 1, evaluate.COLUMNS)
        return [(run.seed, run.delay_s) for run in runs]

    assert made(folder) == [(1, 50.0), (2, 50.0), (1, 50.0)]
    assert len(list(folder.iterdir())) == 2
    assert [run.seed for run in read_runs(file)] == [1, 2]
    monkeypatch.setattr(jobs_of, "run_job", run_again)
    assert made(tmp_path / "other") == made(folder)
    file.unlink()
    assert made(folder) == [(1, 50.0), (2, 50.0), (1, 50.0)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "0"], "--seeds 0 is less than 1"),
        (["--workers", "0"], "--workers 0 is less than 1"),
        ([RESCO], "name the folder of RESCO's maps"),
        (["--only", "actuatde"], "no run is of actuatde; known: "),
    ],
)
def test_impossible_options_are_refused_before_anything_is_made(
    arguments, said, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["evaluate", *arguments])
    with pytest.raises(SystemExit):
        evaluate.main()
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("only", [[], ["--only", "actuated"], ["--only", "another hour, 6:40"]])
def test_a_part_of_the_runs_makes_no_report(only, monkeypatch):
    made: list[Job] = []
    reports: list[object] = []

    def keep(jobs: list[Job], *_: object) -> list[Job]:
        made.extend(jobs)
        return jobs

    monkeypatch.setattr(sys, "argv", ["evaluate", "--seeds", "1", *only])
    monkeypatch.setattr(evaluate, "evaluate", keep)
    monkeypatch.setattr(evaluate, "write_policy_report", lambda runs, _: reports.extend(runs))
    evaluate.main()
    assert len(reports) == (0 if only else len(made))
    assert all({*only[1:]} <= {job.case.name, job.traffic.name} for job in made)


def test_the_kept_file_of_a_run_has_its_values_alone(tmp_path):
    run = make_run("greedy", 1, 2.5)
    assert Run.read(json.loads(json.dumps({**vars(run), "city": "digest"}))) == replace(
        run, departures=[]
    )
