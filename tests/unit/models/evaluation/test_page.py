"""The page says who is best, how sure that is and where, whatever the names; and needs no host."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")
pytest.importorskip("scipy", reason="SciPy is not installed")


from models.evaluation.chart import bars
from models.evaluation.comparison import CityRun, Comparison
from models.evaluation.figures import MEASURES, Figures, queue_at
from models.evaluation.page import page_of
from models.evaluation.statistics import Estimate
from models.networks.form import NetworkFile
from models.simulation.scenario import RouteFiles, Scenario

ALIKE, WORSE = [20.0, 21.0, 22.0], [40.0, 42.5, 41.0]
JUNCTION = {
    "phases": [{"state": "Gr"}, {"state": "rG"}],
    "lanes": [{"id": "a", "capacity": 9}],
    "links": [{"lane": "a", "to": "c"}, {"lane": "a", "to": "d"}],
}


def runs_of(delays: Mapping[str, Sequence[float]], arrived: int = 100) -> list[CityRun]:
    return [
        CityRun(name, seed, delay, delay / 2, delay + 30, 100, arrived, {"n1": delay, "s": 3.0})
        for name, seeds in delays.items()
        for seed, delay in enumerate(seeds, 1)
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

    def make(runs, seeds=3):
        return page_of(Comparison(scenario, Path("agent.th"), range(1, seeds + 1)), runs)

    return make


def test_the_best_is_named_with_what_the_seeds_do_not_tell_from_it(page):
    almost = [20.1, 20.9, 22.1]
    text = page(runs_of({"fixed time": WORSE, "greedy": almost, "policy": ALIKE}))
    assert '<b class="best">policy</b> has the least delay: 21.0 ± 2.5 s per vehicle.' in text
    assert "The seeds do not tell it from greedy." in text
    assert "That is 20.2 s, or 49%, less than with the net's own programs." in text
    assert "<td>fixed time</td><td>20.2 ± 3.1</td><td>3 of 3</td><td>clearly more</td>" in text
    assert "<td>2 of 3</td><td>no clear difference</td>" in text


def test_a_clear_winner_is_called_one_and_one_seed_makes_none(page):
    clear = {"fixed time": WORSE, "policy": ALIKE}
    assert "better than every other by more than chance explains" in page(runs_of(clear))
    single = {name: delays[:1] for name, delays in clear.items()}
    text = page(runs_of(single), seeds=1)
    assert "A single seed says nothing" in text
    assert "±" not in text.split("All measures")[0]
    assert "more than chance explains (95" not in text


def test_a_jam_is_told(page):
    runs = [*runs_of({"fixed time": ALIKE}), *runs_of({"greedy": WORSE}, arrived=60)]
    assert "Under greedy only 60 of 100 vehicles arrived: the city jammed." in page(runs)
    assert "jammed" not in page(runs_of({"fixed time": ALIKE, "greedy": WORSE}))


def test_who_wins_at_which_signal_is_counted_and_marked(page):
    figures = Figures(runs_of({"fixed time": WORSE, "greedy": ALIKE}))
    assert figures.equals(queue_at("n1")) == ["greedy"]
    assert figures.equals(queue_at("s")) == ["fixed time", "greedy"]
    text = page(runs_of({"fixed time": WORSE, "greedy": ALIKE}))
    assert "Of 2 signals, the fewest vehicles stand with fixed time at 1 and greedy at 1." in text


def test_names_are_escaped_rules_are_said_and_no_other_host_is_asked(page):
    text = page(runs_of({"fixed time": WORSE, "policy": ALIKE}))
    assert "<title>&lt;A &amp; B&gt;: 2 signal controllers compared</title>" in text
    assert "every 10 s" in text
    assert "with 3 s of yellow, 0 s of red for all and 0 s of green at least" in text
    assert "second 0 to 1800 (0.5 h)" in text
    assert "<td>Seeds</td><td>1 to 3</td>" in text
    assert "of each lane the share of vehicles that stand" in text
    assert not [mark for mark in ("http:", "https:", "src=", "url(", "<script") if mark in text]
    assert _balanced(text)


def test_the_chart_is_xml_and_draws_bars_in_proportion():
    drawn = ET.fromstring(
        bars("Delay", {"a": Estimate(10, 1), "b<": Estimate(20, 2)}, {"a": [9, 11], "b<": [20]})
    )
    widths = [float(each.attrib["width"]) for each in drawn.iter("rect")]
    assert widths[1] / widths[0] == pytest.approx(2, rel=0.01)
    assert len(list(drawn.iter("circle"))) == 3
    assert [each.text for each in drawn.iter("text")] == ["a", "10.0", "b<", "20.0"]


def test_measures_are_paired_by_seed():
    figures = Figures(runs_of({"fixed time": [10.0, 30.0], "greedy": [11.0, 31.0]}))
    beyond = figures.beyond("greedy", "fixed time", MEASURES["delay"])
    assert beyond.is_clear
    assert beyond == ((1.0, 0.0), 2)


def _balanced(text: str) -> bool:
    opened: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            if tag not in {"meta", "rect", "path", "circle", "li"}:
                opened.append(tag)

        def handle_startendtag(self, tag, attributes):
            pass

        def handle_endtag(self, tag):
            if tag != "li":
                assert opened.pop() == tag

    Reader().feed(text)
    return not opened


def test_the_page_says_which_kind_of_program_runs_under_fixed_time(page):
    text = page(runs_of({"fixed time": WORSE}))
    assert "the last program of each signal in the net: 1 of type actuated" in text


def test_classes_of_vehicles_have_a_section_where_there_are_several(page):
    runs = runs_of({"fixed time": WORSE})
    one = [replace(run, classes={"passenger": (90, 20.0)}) for run in runs]
    assert "<h2>Classes of vehicles</h2>" not in page(one)
    two = [replace(run, classes={"bus": (10, 31.5), "passenger": (90, 20.0)}) for run in runs]
    text = page(two)
    assert "<th>bus (10), s</th><th>passenger (90), s</th>" in text
    assert "<td>fixed time</td><td>31.5 ± 0.0</td><td>20.0 ± 0.0</td>" in text


def test_collisions_are_counted(page):
    runs = runs_of({"fixed time": WORSE})
    assert "No run had a collision, a teleport or emergency braking." in page(runs)
    text = page([replace(run, collisions=2, teleports=2, emergency_braking=5) for run in runs])
    row = "<td>fixed time</td><td>2.0 ± 0.0</td><td>2.0 ± 0.0</td><td>5.0 ± 0.0</td>"
    assert row in text


def test_pedestrians_have_a_section_only_where_there_are_some(page):
    runs = runs_of({"fixed time": WORSE})
    assert "<h2>Pedestrians</h2>" not in page(runs)
    walked = [replace(run, walks=7, walk_delay_s=9.5, walk_delay_longest_s=33.5) for run in runs]
    text = page(walked)
    assert "Time that 7 pedestrians lost" in text
    assert "33.5" in text
