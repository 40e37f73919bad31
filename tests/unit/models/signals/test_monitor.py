"""Signals of any network, and the monitor: what must not be shown is refused."""

import ast
import inspect
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from models.networks.network import Network, network_of, read_network
from models.networks.shipped import SHIPPED, SHIPPED_FILE
from models.signals import monitor as module
from models.signals.monitor import ConflictError, ConflictMonitor, make_monitors
from models.signals.safety import Limits, Shown, read_layers
from models.signals.signal import read_signals
from tests.cities import city_of, entry

MONITORS = make_monitors(SHIPPED)
SIGNALS = read_signals(SHIPPED)


@pytest.mark.parametrize("state", ["", "G", "GGGGGGGGGGGG", "rrrrrrrrrrX", "rrrrrrrrrrrrrrrr"])
def test_what_is_no_state_of_the_junction_is_refused(state):
    with pytest.raises(ConflictError, match="is not a state of 11 links"):
        MONITORS["300839359"].check(state)


def test_a_yield_that_no_phase_shows_is_a_conflict():
    strict = ConflictMonitor(2, {(0, 1)}, set())
    for state in ("Gg", "gG", "yG", "Gy", "gg", "yy"):
        with pytest.raises(ConflictError):
            strict.check(state)
    yielding = ConflictMonitor(2, {(0, 1)}, {(0, 1)})
    for state in ("gG", "yG", "yy", "rG", "Gr", "gg"):
        yielding.check(state)
    for state in ("GG", "Gg", "Gy"):
        with pytest.raises(ConflictError):
            yielding.check(state)


def test_what_it_remembers_is_bounded():
    monitor = ConflictMonitor(12, set(), set())
    for letters in product("rG", repeat=12):
        monitor.check("".join(letters))
    assert len(monitor._known) <= 1000


def test_it_shares_no_code_with_the_layer_that_it_watches():
    tree = ast.parse(inspect.getsource(module))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {name for name in imported if name and name.startswith("models")}
    assert ours == {"models.networks.network", "models.signals.signal"}


HARBOUR = read_network(Path(__file__).parents[4] / "configs" / "harbour.json")


def pier(**changes: Any) -> Network:
    junction: dict[str, Any] = entry("pier", 0, n_lanes=2) | {
        "phases": [{"state": "Gr"}, {"state": "rG"}],
        "intergreen_s": [[None, 4], [6, None]],
    }
    return city_of({**junction, **changes}, name="harbour")


def test_a_change_waits_for_the_intergreen_time_of_the_file():
    layer = read_layers(Limits(), pier())["pier"]
    there = layer.decide(Shown(0, 60.0, (0.0, 60.0)), asked=1)
    assert [step.after_s for step in there.steps] == [0, 3, 4]
    back = layer.decide(Shown(1, 60.0, (60.0, 0.0)), asked=0)
    assert [(step.after_s, step.state) for step in back.steps] == [(0, "ry"), (3, "rr"), (6, "Gr")]


def test_links_that_a_phase_lets_give_way_may_be_green_together():
    times = [[None, 5, None], [5, None, None], [None, None, None]]
    phases = [{"state": "Ggr"}, {"state": "rrG"}]
    monitor = make_monitors(pier(phases=phases, intergreen_s=times))["pier"]
    monitor.check("Ggr")
    monitor.check("yyr")
    with pytest.raises(ConflictError, match="links 0 and 1 conflict"):
        monitor.check("GGr")


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "from intergreen times"])
def test_the_monitor_refuses_exactly_the_mixtures_of_two_phases(declared):
    file = SHIPPED_FILE
    if not declared:
        junctions = tuple(each.model_copy(update={"conflicts": None}) for each in file.junctions)
        file = file.model_copy(update={"junctions": junctions})
    signals = read_signals(network_of(file))
    for name, monitor in make_monitors(network_of(file)).items():
        for one, other in product(signals[name].phases, repeat=2):
            mixed = "".join(a if a != "r" else b for a, b in zip(one, other, strict=True))
            assert refuses(monitor, mixed) == (one != other)


def refuses(monitor: ConflictMonitor, state: str) -> bool:
    try:
        monitor.check(state)
    except ConflictError:
        return True
    return False


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"phases": [{}, {}], "links": None, "intergreen_s": None}, "has no states of its phases"),
        ({"intergreen_s": None}, "has no intergreen_s"),
        ({"phases": [{"state": "Gu"}, {"state": "rG"}]}, "has 'u' in a state"),
    ],
)
def test_what_a_file_leaves_out_is_told_with_its_junction(changes, sentence):
    with pytest.raises(ValueError, match=f"^junction pier of the network harbour {sentence}"):
        read_layers(Limits(), pier(**changes))


def test_a_right_turn_on_red_is_red_behind_the_layer():
    signals = read_signals(pier(phases=[{"state": "Gs"}, {"state": "rG"}]))
    assert signals["pier"].phases == ("Gr", "rG")


def test_crossings_have_the_walk_of_the_file_or_seven_seconds():
    links = [
        {"lane": "pier_0", "to": "quay", "index": 0},
        {"lane": "pier_1", "to": "quay", "index": 1},
        {"lane": ":pier_w0_0", "to": ":pier_c0_0", "index": 0},
        {"lane": "kerb", "to": "other_kerb", "index": 1, "walk_s": 12},
    ]
    assert read_signals(pier(links=links))["pier"].walk_s == {0: 7, 1: 12}
    layer = read_layers(Limits(), pier(links=links))["pier"]
    assert layer.min_green_s == (7, 12)


def test_a_network_without_its_file_is_refused():
    with pytest.raises(ValueError, match="harbour was read without its signals"):
        read_signals(replace(HARBOUR, file=None))
