"""The evaluation's arithmetic and its report; runs are kept and not repeated."""

from __future__ import annotations

import sys
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.policy.form import SHIPPED_POLICY, InvalidPolicyFileError
from models.simulation.controllers import KeepPhase
from models.training import evaluate, evaluation_jobs
from models.training.evaluation_report import Run, estimate, write_report
from models.training.imitate import IMITATION_POLICY
from models.training.outage_levels import OUTAGE_LEVEL, outage_runs, with_outage
from models.training.strains import SEEING, STRAINS
from models.training.traffic_levels import TEST_LEVELS


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


def test_report_shows_outages_with_either_fallback_beside_policy_and_fixed_time(
    tmp_path: Path,
) -> None:
    losses = {"policy": 45.0, "fixed time": 60.0}
    losses |= {name: 100.0 * number for number, name in enumerate(outage_runs(), 1)}
    runs = [
        make_run(name, seed, loss + seed, OUTAGE_LEVEL)
        for name, loss in losses.items()
        for seed in (1, 2)
    ]
    write_report(runs, tmp_path)
    text = (tmp_path / "policy.md").read_text()
    assert "| | RED | plan |\n|---|---:|---:|\n| no outage | 46.5 ± 6.4 | 46.5 ± 6.4 |" in text
    assert "| dead all the time | 701.5 ± 6.4 | 801.5 ± 6.4 |\n| fixed time all" in text


def test_what_is_not_as_usual_stands_in_a_table_of_its_own(tmp_path: Path) -> None:
    (level, strain), *_ = STRAINS.items()
    runs = [make_run("policy", seed, 40.0 + seed, "rush") for seed in (1, 2)]
    runs += [make_run(name, seed, 50.0 + seed, level) for name in SEEING for seed in (1, 2)]
    write_report(runs, tmp_path)
    text = (tmp_path / "policy.md").read_text()
    assert f"| {level} |  |  | 51.5 ± 6.4 | 51.5 ± 6.4 | 51.5 ± 6.4 |" in text
    assert text.count(level) == 1
    assert strain.controllers == SEEING


def test_report_shows_what_training_has_changed_on_more_seeds(tmp_path: Path) -> None:
    runs = [make_run("policy", seed, 40.0 + seed) for seed in (1, 2)]
    progress = [make_run("imitation", seed, 50.0 + seed) for seed in range(1, 6)]
    progress += [make_run("policy", seed, 41.0 + 2 * seed) for seed in range(1, 6)]
    write_report(runs, tmp_path, progress=progress)
    text = (tmp_path / "policy.md").read_text()
    assert "What training has changed, 5 seeds" in text
    assert "| rush | 53.0 ± 2.0 | 47.0 ± 3.9 | -6.0 ± 2.0 |" in text
    assert "| rush | 41.5 ± 6.4 |" in text  # its own seeds stay what the other tables are about
    write_report(runs, tmp_path, progress=progress[5:])
    assert "What training has changed" not in (tmp_path / "policy.md").read_text()


def test_progress_is_measured_for_both_weights_at_every_level() -> None:
    policies = {"imitation": IMITATION_POLICY, "policy": SHIPPED_POLICY}
    jobs = evaluation_jobs.plan_progress(policies, evaluation_jobs.first_seeds(3))
    assert {(job.controller, job.level, job.seed) for job in jobs} == {
        (name, level, seed) for name in policies for level in TEST_LEVELS for seed in (1, 2, 3)
    }
    assert len({job.version for job in jobs}) == len(policies)


def test_run_that_two_tables_need_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = evaluation_jobs.Job("fixed time", "", "", next(iter(TEST_LEVELS)), 1)
    made = make_run("fixed time", 1, 50.0, job.level)
    calls: list[evaluation_jobs.Job] = []

    class Pool:
        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, _: object, job: evaluation_jobs.Job) -> Future[Run]:
            calls.append(job)
            done: Future[Run] = Future()
            done.set_result(made)
            return done

    monkeypatch.setattr(evaluate, "make_pool", lambda _: Pool())
    assert evaluate.evaluate([job, job], tmp_path / "runs.csv", workers=1) == [made, made]
    assert calls == [job]


def test_every_strain_is_a_job_of_the_controllers_that_it_concerns() -> None:
    jobs = evaluation_jobs.plan_jobs(
        {"imitation": IMITATION_POLICY, "policy": SHIPPED_POLICY}, range(2)
    )
    for level, strain in STRAINS.items():
        assert [job.controller for job in jobs if job.level == level] == [*strain.controllers] * 2


def test_every_run_with_an_outage_has_a_controller() -> None:
    for name in outage_runs():
        with_outage(KeepPhase(), name, seed=1).reset()


def test_runs_survive_their_file(tmp_path: Path) -> None:
    runs = [make_run("policy", 2, 41.25), make_run("fixed time", 1, 50.0)]
    evaluate.write_runs(tmp_path / "runs.csv", runs)
    assert list(evaluate.read_runs(tmp_path / "runs.csv")) == sorted(runs)


def test_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    jobs = [evaluation_jobs.Job("fixed time", "", "", level, 1) for level in TEST_LEVELS]
    finished = [make_run("fixed time", 1, 50.0, level) for level in TEST_LEVELS]
    evaluate.write_runs(tmp_path / "runs.csv", finished)
    assert evaluate.evaluate(jobs, tmp_path / "runs.csv", workers=1) == finished


def test_every_controller_meets_every_level_and_seed() -> None:
    policies = {"imitation": IMITATION_POLICY, "policy": IMITATION_POLICY}
    jobs = [
        job for job in evaluation_jobs.plan_jobs(policies, range(1, 4)) if job.level not in STRAINS
    ]
    compared = [job for job in jobs if job.controller not in outage_runs()]
    assert len(set(compared)) == len(compared) == 3 * 5 * 8
    assert len(jobs) - len(compared) == 3 * 4 * 2


def test_runs_of_other_weights_do_not_count(tmp_path: Path) -> None:
    other = tmp_path / "other.th"
    other.write_bytes(IMITATION_POLICY.read_bytes() + b" ")
    versions = {
        job.version
        for path in (IMITATION_POLICY, other)
        for job in evaluation_jobs.plan_jobs({"policy": path}, range(1, 2))
        if job.controller == "policy"
    }
    assert len(versions) == 2


@pytest.mark.parametrize("option", ["--seeds", "--progress-seeds", "--workers"])
def test_impossible_number_is_refused_before_anything_is_made(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evaluate", option, "0"])
    with pytest.raises(SystemExit):
        evaluate.main()
    assert f"{option} 0 is less than 1" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "n_progress"), [([], 20), (["--strains"], None)])
def test_report_keeps_both_kinds_of_runs_apart(
    options: list[str], n_progress: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[evaluation_jobs.Job] = []
    reported: list[int] = []

    def keep(jobs: list[evaluation_jobs.Job], *_: object) -> list[evaluation_jobs.Job]:
        made.extend(jobs)
        return jobs

    def report(runs: list[object], progress: list[object]) -> None:
        reported.extend([len(runs), len(progress)])

    monkeypatch.setattr(
        sys, "argv", ["evaluate", "--seeds", "1", "--progress-seeds", "2", *options]
    )
    monkeypatch.setattr(evaluate, "evaluate", keep)
    monkeypatch.setattr(evaluate, "write_report", report)
    evaluate.main()
    if n_progress is None:
        assert {job.level for job in made} == set(STRAINS)
        assert not reported
    else:
        assert reported == [len(made) - n_progress, n_progress]
        assert {job.controller for job in made[-n_progress:]} == {"imitation", "policy"}


def test_unusable_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicyFileError, match="no such file"):
        evaluation_jobs.plan_jobs({"policy": tmp_path / "none.th"}, range(1, 2))
