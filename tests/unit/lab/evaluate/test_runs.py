"""Runs are made once each, and again only where something else was run."""

import json
from functools import partial

import pytest

from lab.evaluate.runs import Run, make_runs, read_run
from lab.sim.metrics import Metrics
from lab.sim.scenario import InvalidScenarioError


def run_of(name, version):
    return {"name": name, "version": version}


def test_only_the_runs_that_are_missing_or_of_another_kind_are_made(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "runs" / "new.json"
    kept = tmp_path / "kept.json"
    old.write_text(json.dumps({"name": "before", "version": 1}))
    kept.write_text(json.dumps({"name": "before", "version": 2}))
    jobs = {path: partial(run_of, "made", 2) for path in (old, kept, new)}
    runs = make_runs(jobs, {"version": 2}, workers=1)
    assert {path.stem: run["name"] for path, run in runs.items()} == {
        "old": "made",
        "kept": "before",
        "new": "made",
    }
    assert read_run(new, {"version": 2}) == {"name": "made", "version": 2}


def test_what_a_run_raises_ends_them_all_and_keeps_those_that_ended(tmp_path):
    jobs = {tmp_path / "a": partial(run_of, "a", 1), tmp_path / "b": partial(int, "no number")}
    with pytest.raises(ValueError, match="no number"):
        make_runs(jobs, {}, workers=1)
    assert read_run(tmp_path / "a", {}) == {"name": "a", "version": 1}
    assert read_run(tmp_path / "b", {}) is None


def test_a_run_without_vehicles_and_pedestrians_is_refused():
    with pytest.raises(InvalidScenarioError, match="no vehicle and no pedestrian"):
        Run.of("greedy", 1, Metrics(0, 0, 0, 0, 0))
