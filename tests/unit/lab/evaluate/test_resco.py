"""The scoreboard's cells and page; the scenarios themselves are where their user has them."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.evaluate.kept_runs import digest
from lab.evaluate.resco import (
    LEAD_SEEDS,
    LEADS,
    TRAINED,
    TUNED,
    choose_lead,
    make_results,
    read_results,
    result_file,
    scenario_of,
)
from lab.evaluate.resco_measures import Result
from lab.evaluate.resco_page import PAGE, read_runs, write_report
from lab.evaluate.resco_published import MAPS, PUBLISHED
from lab.sim.scenario import InvalidScenarioError

SUMO = version("eclipse-sumo")


def result(controller: str, seed: int, delay_s: float, sumo: str = SUMO) -> Result:
    return Result("cologne8", controller, seed, sumo, delay_s, 10.0, 90.0, 2046, 2000)


def test_a_folder_without_the_maps_is_named_in_a_sentence(tmp_path):
    with pytest.raises(InvalidScenarioError, match=r"cologne1\.sumocfg is not there\."):
        scenario_of(tmp_path, "cologne1")


def test_finished_runs_are_not_made_again_unless_sumo_is_another(tmp_path):
    cell = ("cologne8", "max pressure", 3)
    kept = result("max pressure", 3, 24.4)
    file = tmp_path / result_file(*cell)
    file.write_text(json.dumps(kept._asdict()))
    assert make_results(tmp_path / "nowhere", [cell], tmp_path, workers=1) == [kept]
    file.write_text(json.dumps(kept._replace(sumo="1.9.0")._asdict()))
    assert read_results(tmp_path) == []


def test_the_page_has_means_intervals_and_what_was_published(tmp_path):
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    results = [result("greedy", seed, 20.0 + seed) for seed in (1, 2, 3)]
    write_report([*results, result("fixed time", 1, 50.0)], tmp_path / "resco.md")
    text = (tmp_path / "resco.md").read_text()
    assert "| cologne8 | 3 | 22.0 ± 2.5 | 50.0 | 21.6 IPPO |" in text
    assert (tmp_path / "resco.png").stat().st_size > 1000
    runs = (tmp_path / "resco.csv").read_text().splitlines()
    assert (len(runs), runs[1].split(",")[:3]) == (5, ["cologne8", "greedy", "1"])


def test_measures_of_runs_that_did_not_record_them_have_a_star_or_nothing(tmp_path):
    earlier = result("max pressure", 1, 50.0)
    now = result("greedy", 1, 20.0)._replace(
        resco_trip_s=80.0, resco_waiting_s=9.0, resco_queue=0.256
    )
    write_report([earlier, now], tmp_path / "resco.md")
    text = (tmp_path / "resco.md").read_text()
    assert "| cologne8 | 90.0* | 80.0 | 85.7 IPPO |" in text
    assert "| cologne8 |  | 0.26 | 0.36 IPPO |" in text


def test_a_figure_is_published_or_known_to_be_missing_for_each_map():
    for measure, figures in PUBLISHED.items():
        for algorithm, of_maps in figures.items():
            assert len(of_maps) == len(MAPS), (measure, algorithm)


def test_the_page_has_medians_and_how_many_runs_jammed(tmp_path):
    jam_in_one = [result("greedy", seed, 20.0) for seed in range(1, 5)] + [
        result("greedy", 5, 31.0)
    ]
    always = [result("actuated", seed, 900.0)._replace(arrived=600) for seed in (1, 2)]
    write_report([*jam_in_one, *always], tmp_path / "resco.md")
    text = (tmp_path / "resco.md").read_text()
    assert "| cologne8 | 20.0 (1 of 5) | 900.0 (2 of 2) | 63.8 |" in text


def test_the_committed_page_is_written_again_from_its_runs_alone(tmp_path):
    write_report(read_runs(PAGE.with_suffix(".csv")), tmp_path / "resco.md")
    for suffix in (".md", ".csv"):
        made = (tmp_path / "resco.md").with_suffix(suffix)
        assert made.read_bytes() == PAGE.with_suffix(suffix).read_bytes()


def test_all_that_is_kept_is_told_in_the_order_of_the_controllers(tmp_path):
    results = [result("greedy", 2, 20.0), result("fixed time", 1, 50.0), result("greedy", 1, 21.0)]
    for each in results:
        file = result_file(each.map, each.controller, each.seed)
        (tmp_path / file).write_text(json.dumps(each._asdict()))
    assert read_results(tmp_path) == [results[1], results[2], results[0]]


@pytest.mark.parametrize(
    ("delays_s", "best"), [((30, 29, 28, 29, 27), 2), ((30, 48, 0, 0, 0), 0), ((5, 4, 3, 2, 1), 4)]
)
def test_a_lead_is_chosen_while_a_longer_one_is_better(delays_s, best):
    assert choose_lead(dict(zip(LEADS, delays_s, strict=True)).__getitem__) == LEADS[best]


def test_the_lead_is_chosen_on_other_seeds_and_runs_of_another_lead_are_made_anew(tmp_path):
    cell = ("cologne8", TUNED, 1)
    (tmp_path / "leads").mkdir()
    for lead, delay_s in zip(LEADS[:3], (30.0, 28.0, 29.0), strict=True):
        for seed in LEAD_SEEDS:
            tried = result(TUNED, seed, delay_s)._replace(policy=f"lead {lead:g}")
            file = tmp_path / "leads" / f"cologne8-{lead:g}-{seed}.json"
            file.write_text(json.dumps(tried._asdict()))
    kept = result(TUNED, 1, 27.0)._replace(policy=f"lead {LEADS[1]:g}")
    file = tmp_path / result_file(*cell)
    file.write_text(json.dumps(kept._asdict()))
    assert make_results(tmp_path / "nowhere", [cell], tmp_path, workers=1) == [kept]
    assert read_results(tmp_path) == [kept], "those of the choice are not shown"
    file.write_text(json.dumps(kept._replace(policy=f"lead {LEADS[0]:g}")._asdict()))
    with pytest.raises(InvalidScenarioError):
        make_results(tmp_path / "nowhere", [cell], tmp_path, workers=1)


def test_trained_runs_count_for_their_weights_only_and_others_stand_between(tmp_path):
    weights = tmp_path / "policies" / "cologne8.th"
    cell = ("cologne8", TRAINED, 1)
    assert make_results(tmp_path / "nowhere", [cell], tmp_path, workers=1) == []
    weights.parent.mkdir()
    weights.write_bytes(b"weights")
    kept = result(TRAINED, 1, 20.0)._replace(policy=digest(weights))
    peer = result("SB3 PPO", 1, 30.0)
    for each in (kept, peer, result("greedy", 1, 21.0)):
        file = result_file(each.map, each.controller, each.seed)
        (tmp_path / file).write_text(json.dumps(each._asdict()))
    assert make_results(tmp_path / "nowhere", [cell], tmp_path, workers=1) == [kept]
    assert [each.controller for each in read_results(tmp_path)] == ["greedy", "SB3 PPO", TRAINED]
    weights.write_bytes(b"other weights")
    with pytest.raises(InvalidScenarioError):
        make_results(tmp_path / "nowhere", [cell], tmp_path, workers=1)
