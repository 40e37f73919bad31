"""The evaluation's arithmetic and its report; runs are kept and not repeated."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.evaluate import __main__ as evaluate
from lab.evaluate.cases import (
    BROKEN,
    CYCLIC,
    DETECTED,
    DETECTING,
    DIAGNOSED,
    DIAGNOSED_POLICY,
    GUARDED_POLICY,
    LEVELS,
    OBSERVING,
    ORDERED,
    OUTAGE_RUNS,
    POLICY,
    RUSH_HOUR,
    SAFE_POLICY,
    STRESS,
    Job,
    plan_jobs,
    plan_variants,
)
from lab.evaluate.report import Run, write_order_report, write_report
from lab.evaluate.run_job import SAME, run_job
from lab.evaluate.statistics import estimate
from lab.sim.controllers import GUARDED
from lab.sim.programs import Programs
from models.networks.shipped import SHIPPED
from models.policy.form import SHIPPED_POLICY, InvalidPolicyFileError
from models.policy.training_record import TrainingRecord, write_record


def make_run(controller: str, seed: int, time_loss_s: float, level: str = "rush") -> Run:
    return Run(controller, "", level, seed, time_loss_s, 20.0, 120.0, 3600, 3700, 31.5)


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (4, 2.776), (9, 2.262), (19, 2.093), (100, 1.984)]
)
def test_the_interval_is_as_wide_as_students_table_says(freedom: int, expected: float) -> None:
    values = np.arange(freedom + 1)
    standard_error = values.std(ddof=1) / len(values) ** 0.5
    assert estimate(values).half_width / standard_error == pytest.approx(expected, abs=5e-4)


def test_interval_holds_the_truth_19_times_of_20() -> None:
    rng = np.random.default_rng(1)
    estimates = [estimate(rng.normal(3, 2, 20)) for _ in range(2000)]
    held = [abs(each.mean - 3) < each.half_width for each in estimates]
    assert np.mean(held) == pytest.approx(0.95, abs=0.015)


def test_report_shows_means_with_intervals_and_paired_differences(tmp_path: Path) -> None:
    runs = [make_run("policy", seed, 40.0 + seed) for seed in range(1, 6)]
    runs += [make_run("fixed time", seed, 50.0 + seed) for seed in range(1, 6)]
    write_report(runs, tmp_path)
    text = (tmp_path / "policy.md").read_text()
    assert "| | policy | fixed time |\n|---|---:|---:|\n| rush | 43.0 ± 2.0 | 53.0 ± 2.0 |" in text
    assert "| | fixed time |\n|---|---:|\n| rush | -10.0 ± 0.0 |" in text
    assert "outages" not in text  # none was simulated
    assert (tmp_path / "policy.png").stat().st_size > 5_000


def test_behind_the_safety_layer_a_peer_is_compared_with_the_policy_there(tmp_path: Path) -> None:
    losses = {"policy": 40.0, "actuated": 50.0}
    losses |= {SAFE_POLICY: 80.0, GUARDED_POLICY: 90.0, f"actuated{GUARDED}": 100.0}
    runs = [make_run(name, seed, loss) for name, loss in losses.items() for seed in (1, 2)]
    write_report(runs, tmp_path)
    text = (tmp_path / "policy.md").read_text()
    assert f"| | actuated | {GUARDED_POLICY} | actuated{GUARDED} |\n" in text
    assert "| rush | -10.0 ± 0.0 | -10.0 ± 0.0 | -20.0 ± 0.0 |" in text


def test_report_shows_outages_with_either_fallback_beside_policy_and_fixed_time(
    tmp_path: Path,
) -> None:
    losses = {"policy": 45.0, "fixed time": 60.0}
    losses |= {name: 100.0 * number for number, name in enumerate(OUTAGE_RUNS, 1)}
    runs = [
        make_run(name, seed, loss + seed, RUSH_HOUR)
        for name, loss in losses.items()
        for seed in (1, 2)
    ]
    write_report(runs, tmp_path)
    text = (tmp_path / "policy.md").read_text()
    assert "| | RED | plan |\n|---|---:|---:|\n| no outage | 46.5 ± 6.4 | 46.5 ± 6.4 |" in text
    assert "| dead all the time | 701.5 ± 6.4 | 801.5 ± 6.4 |\n| fixed time all" in text


def test_faults_and_unusual_traffic_have_a_table_of_their_own(tmp_path: Path) -> None:
    (level, stress), *_ = STRESS.items()
    runs = [make_run("policy", seed, 40.0 + seed, "rush") for seed in (1, 2)]
    runs += [make_run(name, seed, 50.0 + seed, level) for name in OBSERVING for seed in (1, 2)]
    write_report(runs, tmp_path)
    text = (tmp_path / "policy.md").read_text()
    assert f"| {level} |  |  |  | 51.5 ± 6.4 | 51.5 ± 6.4 |  |  |  |" in text
    assert text.count(level) == 1
    assert stress.controllers == OBSERVING


def test_what_diagnosis_costs_and_saves_is_compared_with_working_detectors(tmp_path: Path) -> None:
    loss_s = {(RUSH_HOUR, POLICY): 40.0, (RUSH_HOUR, DIAGNOSED_POLICY): 40.2}
    loss_s |= {(level, POLICY): 90.0 for level in BROKEN}
    loss_s |= {(level, DIAGNOSED_POLICY): 44.0 for level in BROKEN}
    runs = [
        make_run(name, seed, loss_s.get((level, name), 20.0), level)
        for seed in (1, 2)
        for level in DIAGNOSED
        for name in (POLICY, DIAGNOSED_POLICY)
    ]
    write_report(runs, tmp_path)
    table = (tmp_path / "policy.md").read_text().split("## ")[-1]
    assert "2 seeds" in table.splitlines()[0]
    assert f"| {RUSH_HOUR} | 40.0 ± 0.0 | 40.0 ± 0.0 | 40.2 ± 0.0 | 0.5 % |" in table
    (broken, *_) = BROKEN
    assert f"| {broken} | 40.0 ± 0.0 | 90.0 ± 0.0 | 44.0 ± 0.0 | 10.0 % |" in table


def test_every_controller_is_a_job_wherever_it_is_compared_and_can_be_made() -> None:
    jobs = plan_jobs(SHIPPED_POLICY, range(1, 3))
    assert len(jobs) == len(set(jobs))
    for level, stress in STRESS.items():
        made = [job.controller for job in jobs if job.level == level]
        assert made[: 2 * len(stress.controllers)] == [*stress.controllers] * 2
        assert made[2 * len(stress.controllers) :] == [DIAGNOSED_POLICY] * 2 * (level in BROKEN)
    assert {job.controller for job in jobs if job.level == RUSH_HOUR} > {*OUTAGE_RUNS}
    assert {job.level for job in jobs} == {*LEVELS, *STRESS}
    observations = {each.id: [0.0] * each.obs_size for each in SHIPPED.junctions.values()}
    for job in jobs:
        scenario = job.scenario
        assert scenario.guarded == job.controller.endswith(GUARDED)
        control = job.control(scenario)
        if not isinstance(control, Programs) and not job.controller.startswith("longest queue"):
            control(None).act(observations)  # type: ignore[arg-type]


@pytest.mark.parametrize("guard", ["", GUARDED])
def test_at_every_level_sumos_two_controls_have_the_same_phases(guard: str) -> None:
    jobs = plan_jobs(SHIPPED_POLICY, range(1, 2))
    made = {
        (job.level, job.controller): job.control(job.scenario) for job in jobs if not job.policy
    }
    for level in LEVELS:
        by_gaps, by_delay = made[level, f"actuated{guard}"], made[level, f"delay-based{guard}"]
        assert isinstance(by_gaps, Programs)
        assert isinstance(by_delay, Programs)
        assert [each.replace("delay_based", "actuated") for each in by_delay.elements] == list(
            by_gaps.elements
        )
        assert by_delay != by_gaps


def test_what_the_cyclic_order_costs_is_shown_seed_by_seed(tmp_path: Path) -> None:
    jobs = plan_variants(SHIPPED_POLICY, range(1, 3), ORDERED, LEVELS)
    for job in jobs:
        assert job.scenario.cyclic == (CYCLIC in job.controller)
        job.control(job.scenario)
    order_s = {True: 3.0, False: 0.0}
    write_order_report(
        [
            make_run(
                job.controller, job.seed, 40.0 + job.seed + order_s[job.scenario.cyclic], job.level
            )
            for job in jobs
        ],
        tmp_path,
    )
    rows = (tmp_path / "phase_order.md").read_text().splitlines()
    assert rows[-1].startswith(f"| greedy{CYCLIC}{GUARDED} | 44.5 ± 6.4 (3.0 ± 0.0) | 44.5")
    assert rows[-2].startswith(f"| greedy{GUARDED} | 41.5 ± 6.4 | 41.5")


def test_each_layout_of_detectors_is_a_job_of_each_controller_that_observes() -> None:
    jobs = plan_variants(SHIPPED_POLICY, range(1, 3), DETECTING, DETECTED)
    assert len(jobs) == len(set(jobs)) == 2 * len(DETECTED) * 3
    assert {job.level for job in jobs if not job.scenario.detectors} == {RUSH_HOUR, "medium, 12:00"}
    of_policy = {job for job in jobs if job.controller == "policy"}
    assert of_policy & set(plan_jobs(SHIPPED_POLICY, range(1, 3))), "those runs are not repeated"
    assert all(job.control(job.scenario) for job in jobs)


def test_behind_the_safety_layer_another_policy_also_decides(tmp_path: Path) -> None:
    safe = tmp_path / "safe.th"
    safe.write_bytes(SHIPPED_POLICY.read_bytes())
    write_record(safe, TrainingRecord(True, "all"))
    jobs = [job for job in plan_jobs(SHIPPED_POLICY, range(1, 2), safe) if job.policy == str(safe)]
    other_hours = [level for level, each in STRESS.items() if SAFE_POLICY in each.controllers]
    assert [job.level for job in jobs] == [*LEVELS, *other_hours]
    assert {job.controller for job in jobs} == {SAFE_POLICY}
    assert {(job.scenario.guarded, job.scenario.counts) for job in jobs} == {(True, "all")}


def test_worker_processes_can_import_what_makes_a_run() -> None:
    assert run_job.__module__ != evaluate.__name__


def test_policies_count_for_the_plan_that_replaces_them_and_the_limits_of_their_detectors() -> None:
    jobs = plan_jobs(SHIPPED_POLICY, range(1, 2))
    of_versions = defaultdict(set)
    for job in jobs:
        if job.policy:
            of_versions[job.version].add(job.controller)
    assert len(of_versions) == 4
    with_more = [names for version, names in of_versions.items() if " " in version]
    with_plan = {each for each in OUTAGE_RUNS if each.endswith("plan")}
    assert sorted(with_more, key=len) == [{DIAGNOSED_POLICY}, with_plan]


def run_quietly(job: Job) -> Mapping[str, Any]:
    run = Run(job.controller, job.version, job.level, job.seed, 50.0, 20.0, 120.0, 1, 2, 3.0)
    return run._asdict() | SAME


def run_again(job: Job) -> NoReturn:
    raise AssertionError(f"{job} has been run before")


def test_runs_that_the_file_or_the_folder_has_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [Job("fixed time", "", "", next(iter(LEVELS)), seed) for seed in (1, 2, 1)]
    monkeypatch.setattr(evaluate, "run_job", run_quietly)
    file, folder = tmp_path / "runs.csv", tmp_path / "unfinished"
    runs = evaluate.evaluate(jobs, file, folder, workers=1)
    assert [run.seed for run in runs] == [1, 2, 1]
    assert len(list(folder.iterdir())) == 2
    assert list(evaluate.read_runs(file)) == sorted(set(runs))
    monkeypatch.setattr(evaluate, "run_job", run_again)
    assert evaluate.evaluate(jobs, file, tmp_path / "other", workers=1) == runs
    file.unlink()
    assert evaluate.evaluate(jobs, file, folder, workers=1) == runs


@pytest.mark.parametrize("option", ["--seeds", "--workers"])
def test_impossible_number_is_refused_before_anything_is_made(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evaluate", option, "0"])
    with pytest.raises(SystemExit):
        evaluate.main()
    assert f"{option} 0 is less than 1" in capsys.readouterr().err


def test_layouts_of_detectors_have_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(evaluate, "run_job", run_quietly)
    monkeypatch.setattr(evaluate, "UNFINISHED", tmp_path / "unfinished")
    runs = str(tmp_path / "runs.csv")
    arguments = ["--detectors", "--seeds", "2", "--workers", "1", "--runs", runs]
    monkeypatch.setattr(sys, "argv", ["evaluate", *arguments])
    evaluate.main()
    table = capsys.readouterr().out
    assert "Time loss by layout of detectors, 2 seeds" in table
    assert "| | policy | longest queue | greedy |" in table
    assert f"| {RUSH_HOUR}, stop-line | 50.0 ± 0.0 | 50.0 ± 0.0 | 50.0 ± 0.0 |" in table


@pytest.mark.parametrize("options", [[], ["--stress"], ["--only", "actuated"]])
def test_a_part_of_the_runs_makes_no_report(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Job] = []
    reported: list[object] = []

    def keep(jobs: list[Job], *_: object) -> list[Job]:
        made.extend(jobs)
        return jobs

    monkeypatch.setattr(sys, "argv", ["evaluate", "--seeds", "1", *options])
    monkeypatch.setattr(evaluate, "evaluate", keep)
    monkeypatch.setattr(evaluate, "write_report", reported.extend)
    evaluate.main()
    assert len(reported) == (0 if options else len(made))
    if "--stress" in options:
        assert {job.level for job in made} == set(STRESS)
    if "--only" in options:
        assert {job.controller for job in made} == {"actuated"}


def test_unusable_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicyFileError, match="no such file"):
        plan_jobs(tmp_path / "none.th", range(1, 2))


@pytest.mark.parametrize("option", ["--cyclic", "--detectors"])
def test_some_controllers_alone_make_runs_and_no_report(option: str, monkeypatch) -> None:
    made: list[str] = []

    def note(jobs: list[Job], *_: object) -> list[Run]:
        made.extend(job.controller for job in jobs)
        return []

    def refuse(*_: object) -> None:
        pytest.fail("a report of some controllers")

    monkeypatch.setattr(evaluate, "evaluate", note)
    monkeypatch.setattr(evaluate, "write_order_report", refuse)
    monkeypatch.setattr(evaluate, "detector_table", refuse)
    monkeypatch.setattr(sys, "argv", ["evaluate", option, "--seeds", "1", "--only", "greedy"])
    evaluate.main()
    assert set(made) == {"greedy"}
