"""The page names the best controller, how certain that is and where, and needs no other host."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab.evaluate.chart import WIDTH, bars
from lab.evaluate.city_map import level_of
from lab.evaluate.comparison import Comparison
from lab.evaluate.figures import Figures
from lab.evaluate.page import page_of
from lab.evaluate.runs import Run
from lab.net.demand import InvalidDemandError
from lab.sim.metrics import Approach
from lab.sim.scenario import RouteFiles, Scenario
from models.networks.form import NetworkFile

ALIKE, WORSE = [20.0, 21.0, 22.0], [40.0, 42.5, 41.0]
JUNCTION = {
    "phases": [{"state": "Gr"}, {"state": "rG"}],
    "lanes": [{"id": "a", "capacity": 9}],
    "links": [{"lane": "a", "to": "c"}, {"lane": "a", "to": "d"}],
}


def runs_of(delays: Mapping[str, Sequence[float]], arrived: int = 100) -> list[Run]:
    return [
        Run(delay, delay / 2, delay + 30, 100, arrived, queues, controller=name, seed=seed)
        for name, seeds in delays.items()
        for seed, delay in enumerate(seeds, 1)
        for queues in ({"n1": delay, "s": 3.0},)
    ]


@pytest.fixture
def page(tmp_path):
    """Return what makes the text of a page from runs."""
    (tmp_path / "town.rou.xml").write_text("<nothing/>")
    program = '<tlLogic id="n1" type="actuated"><phase state="Gr" duration="9"/></tlLogic>'
    (tmp_path / "town.net.xml").write_text(f"<net>{program}</net>")
    junctions = [{"id": "n1", "agent_index": 0, **JUNCTION}]
    network = NetworkFile.model_validate({"name": "<A & B>", "junctions": junctions})
    routes = RouteFiles((tmp_path / "town.rou.xml",))
    scenario = Scenario(network, tmp_path / "town.net.xml", routes, 0, 1800)

    def make(runs, seeds=3, **counted):
        compared = range(1, seeds + 1), True, counted
        return page_of(Comparison(scenario, Path("agent.th"), *compared), runs)

    return make


def test_the_best_is_named_with_what_the_seeds_do_not_tell_from_it(page):
    almost = [20.1, 20.9, 22.1]
    text = page(runs_of({"fixed time": WORSE, "greedy": almost, "policy": ALIKE}))
    assert "Policy has the least delay: each vehicle loses 21.0 s on average." in text
    assert "the true mean is within the interval, here 18.5 to 23.5 s." in text
    assert "The difference from greedy is not clear." in text
    assert "Compared with the net's own programs, it reduces delay by 49%." in text
    assert "<td>fixed time</td><td>20.2 ± 3.1</td><td>3 of 3</td><td>clear</td>" in text
    assert "<td>2 of 3</td><td>not clear</td>" in text


def test_a_clear_winner_is_called_one_and_one_seed_makes_none(page):
    clear = {"fixed time": WORSE, "policy": ALIKE}
    assert "The difference from every other controller is clear." in page(runs_of(clear))
    single = {name: delays[:1] for name, delays in clear.items()}
    text = page(runs_of(single), seeds=1)
    assert "With a single seed, nothing is known about how certain that is." in text
    assert "±" not in text.split("Means over the seeds")[0]
    assert "The difference from" not in text


def test_a_jam_is_told(page):
    runs = [*runs_of({"fixed time": ALIKE}), *runs_of({"greedy": WORSE}, arrived=60)]
    assert "Under greedy, only 60 of 100 vehicles arrive: the city jams." in page(runs)
    assert "jams" not in page(runs_of({"fixed time": ALIKE, "greedy": WORSE}))


def test_names_are_escaped_rules_are_said_and_no_other_host_is_asked(page):
    text = page(runs_of({"fixed time": WORSE, "policy": ALIKE}))
    assert "<title>&lt;A &amp; B&gt;: signal controllers compared</title>" in text
    assert "every 5 s" in text
    assert "with 3 s of yellow, 0 s of red for all and 0 s of green at least" in text
    assert "second 0 to 1800 (0.5 h)" in text
    assert "<td>Seeds</td><td>1 to 3</td>" in text
    assert "of each lane the share of vehicles that stand" in text
    assert not [mark for mark in ("http:", "https:", "src=", "url(", "<script") if mark in text]
    assert "in the net and additional files: 1 of type actuated" in text


def test_the_chart_is_xml_and_draws_bars_in_proportion_up_to_the_most():
    values = {"a": [9.0, 11.0], "b<": [20.0], "c": [80.0]}
    drawn = ET.fromstring(bars("Delay", values, most=25.0))
    widths = [float(each.attrib["width"]) for each in drawn.iter("rect")]
    assert widths[1] / widths[0] == pytest.approx(2, rel=0.01)
    assert widths[2] == max(widths) == WIDTH
    assert len(list(drawn.iter("circle"))) == 3
    texts = [each.text for each in drawn.iter("text")]
    assert texts == ["a", "10.0", "b<", "20.0", "c", "80.0"]


WAITS = {"a": Approach(50, 2.0, 6, 21.0, 40.0, 55.0), "b": Approach(3, 0.1, 1, 99.0, 99.0, 99.0)}


def test_the_worst_approach_is_the_one_with_the_longest_mean_wait_of_many_vehicles(page):
    run = replace(runs_of({"fixed time": [20.0]})[0], approaches=WAITS)
    longer = {"a": Approach(70, 4.0, 8, 31.0, 60.0, 70.0), "c": Approach(60, 1.0, 2, 9.0, 9.0, 9.0)}
    runs = [
        replace(run, approaches={**WAITS, "c": longer["c"]}),
        replace(run, seed=2, approaches={**longer, "b": WAITS["b"]}),
    ]
    approaches = Figures(runs).approaches("fixed time")
    assert list(approaches) == ["a", "c", "b"]
    assert approaches["a"] == (60, 3.0, 8, 26.0, 50.0, 70.0)
    text = page([replace(run, approaches={"a": WAITS["a"]})], seeds=1)
    assert "The worst approach is a, at n1: vehicles lose 21 s there on average" in text
    row = "<td>a, at n1</td><td>50</td><td>2.0</td><td>6</td><td>21</td><td>40</td><td>55</td>"
    assert f"{row}<td>C</td>" in text


def test_the_fit_of_the_traffic_to_counts_is_said_in_geh(page):
    runs = [replace(runs_of({"fixed time": [20.0]})[0], approaches={"a": WAITS["a"]})]
    for counted, verdict, cell in (
        (140, "1 of 1 counts have", '<td class="best">3.7</td>'),
        (160, "0 of 1 counts have", "<td>5.3</td>"),
    ):
        text = page(runs, seeds=1, a=counted)
        assert f"{verdict} a GEH below 5, under fixed time." in text
        assert f"<td>a, at n1</td><td>{counted}</td><td>100</td>{cell}" in text
    assert "GEH" not in page(runs, seeds=1)
    with pytest.raises(
        InvalidDemandError, match=r"^c has a count, but does not end at a signal\.$"
    ):
        page(runs, seeds=1, c=10)


def test_controllers_behind_the_safety_layer_are_compared_apart(page):
    guarded = "actuated behind the safety layer", "policy behind the safety layer"
    runs = runs_of({"policy": ALIKE, "fixed time": WORSE, guarded[0]: WORSE, guarded[1]: ALIKE})
    text = page(runs)
    assert text.count("Policy has the least delay") == 2
    assert '<h2 class="page">Delay behind the safety layer</h2>' in text
    assert "the difference is</th>" in text.split("Delay behind the safety layer")[1]


BEST = '<td class="best">'
BUSES = {"bus": (10, 31.5), "passenger": (90, 20.0)}


@pytest.mark.parametrize(
    ("measured", "parts"),
    [
        ({"classes": {"passenger": (90, 20.0)}}, ()),
        (
            {"classes": BUSES},
            ("<th>bus (10), s</th><th>passenger (90), s</th>", f"{BEST}31.5</td>{BEST}20.0</td>"),
        ),
        (
            {"collisions": 2, "teleports": 2, "emergency_braking": 5},
            ("<td>2.0</td><td>2.0</td><td>5.0</td>",),
        ),
        ({"walks": 7, "walk_delay_longest_s": 33.5}, ("Time that 7 pedestrians lose", "33.5")),
        (
            {"waiting_95_s": 61.0, "longest_waiting_s": 140.0, "stops": 1.5},
            ("in twenty waits longer than 61 s", "wait is 140 s. A vehicle stops 1.5 times."),
        ),
        (
            {"driven_km": 200.0, "co2_kg": 50.0, "nox_g": 20.0, "fuel_kg": 16.0},
            (f"{BEST}50.0</td>{BEST}250.0</td>{BEST}20.0</td>{BEST}16.0</td>",),
        ),
    ],
    ids=["one class", "classes", "incidents", "pedestrians", "fairness", "emissions"],
)
def test_what_some_traffic_has_is_in_the_page_where_it_was_measured(page, measured, parts):
    (run,) = runs_of({"fixed time": [20.0]})
    without, text = page([run], seeds=1), page([replace(run, **measured)], seeds=1)
    for part in parts:
        assert part in text
        assert part not in without
    for section in ("Classes of vehicles", "Pedestrians", "Emissions"):
        assert f"<h3>{section}</h3>" not in without
    assert "<h3>Classes of vehicles</h3>" in text or measured.get("classes") != BUSES
    assert "No run had a collision, a teleport or emergency braking." in without


@pytest.mark.parametrize(("wait_s", "level"), [(10, "A"), (10.1, "B"), (55, "D"), (81, "F")])
def test_levels_have_the_bounds_of_the_highway_capacity_manual(wait_s, level):
    assert level_of(wait_s) == level
