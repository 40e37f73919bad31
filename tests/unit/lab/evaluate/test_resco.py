"""The scoreboard's cells and page; the scenarios themselves are where their user has them."""

from dataclasses import replace
from pathlib import Path

from lab.evaluate.__main__ import REPORTED, RESCO_FILE
from lab.evaluate.cases import RESCO
from lab.evaluate.jobs import plan_jobs
from lab.evaluate.resco import COLUMNS, write_report
from lab.evaluate.runs import SUMO, Run, digest, read_runs, write_runs


def run_of(controller: str, seed: int, delay_s: float) -> Run:
    times_s = delay_s, 10.0, 90.0
    return Run(
        *times_s, 2046, 2000, controller=controller, seed=seed, traffic="cologne8", sumo=SUMO
    )


def page_of(runs: list[Run], folder: Path) -> str:
    write_report(runs, folder / "resco.md")
    return (folder / "resco.md").read_text()


def test_runs_of_another_sumo_are_made_anew(tmp_path):
    kept = run_of("greedy", 3, 24.4)
    write_runs(tmp_path / "resco.csv", [kept, replace(kept, seed=4, sumo="1.9.0")], COLUMNS)
    assert [run.seed for run in read_runs(tmp_path / "resco.csv")] == [3]


def test_runs_of_a_policy_that_was_replaced_leave_the_scoreboard(tmp_path):
    before, now = (replace(run_of("trained", 1, 20.0), version=each) for each in "ab")
    other, file = run_of("greedy", 1, 24.4), tmp_path / "resco.csv"
    write_runs(file, [before, now, other], COLUMNS)
    REPORTED[RESCO].report([now], file)
    assert read_runs(file) == [other, now]


def test_the_committed_page_is_written_again_from_its_runs_alone(tmp_path):
    runs = read_runs(RESCO_FILE)
    assert page_of(runs, tmp_path) == RESCO_FILE.with_suffix(".md").read_text()
    write_runs(tmp_path / "resco.csv", runs, COLUMNS)
    assert (tmp_path / "resco.csv").read_text() == RESCO_FILE.read_text()


def test_trained_runs_count_for_their_weights_and_need_a_file_of_their_map(tmp_path):
    def trained() -> list[tuple[str, str, str, int]]:
        jobs = plan_jobs(RESCO, range(1, 2), tmp_path)
        return [job.key for job in jobs if job.case.is_policy]

    assert trained() == []
    weights = tmp_path / "cologne8.th"
    weights.write_bytes(b"weights")
    assert trained() == [("trained", digest(weights), "cologne8", 1)]


def test_the_committed_runs_have_the_leads_of_the_cases(tmp_path):
    tuned = [job for job in plan_jobs(RESCO, range(1, 2), tmp_path) if "100 m" in job.case.name]
    kept = {run.key for run in read_runs(RESCO_FILE)}
    assert {job.key for job in tuned} <= kept
