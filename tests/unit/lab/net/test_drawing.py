"""The picture of a network shows the ways that each phase lets go, and where people walk."""

import re
import time
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="Matplotlib is not installed")

from lab.net.drawing import GIVES_WAY, GREEN, RED, WALK, draw_network
from models.networks.form import NetworkFile
from models.networks.shipped import SHIPPED

STATES = "Ggrr", "rrGG"
LANES = [
    {"id": "west", "capacity": 9, "shape": [(-80, 0), (-9, 0)]},
    {"id": "north", "capacity": 9, "shape": [(0, 80), (0, 9)]},
]
LINKS = [
    {"lane": "west", "to": "east"},
    {"lane": "west", "to": "top", "turn": "l"},
    {"lane": "north", "to": "south"},
    {"lane": ":a_w0_0", "to": ":a_c0_0", "shape": [(-9, 9), (-9, -9)]},
]


def drawn(path: Path, states: tuple[str, ...] = STATES) -> dict[str, int]:
    """Return the number of lines of each colour."""
    phases = [{"state": state} for state in states]
    junction = {"id": "a", "agent_index": 0, "phases": phases, "lanes": LANES, "links": LINKS}
    network = NetworkFile.model_validate({"name": "town", "junctions": [junction]})
    draw_network(network, path)
    text = path.read_text()
    return {
        colour: len(re.findall(f"stroke: {colour}", text))
        for colour in (GREEN, GIVES_WAY, WALK, RED)
    }


def test_each_green_way_is_an_arrow_and_each_walk_a_bar(tmp_path):
    curve_and_head = 2
    lines = drawn(tmp_path / "a.svg")
    assert lines[GREEN] == 2 * curve_and_head
    assert lines[GIVES_WAY] == 1 * curve_and_head
    assert lines[WALK] == 1
    assert lines[RED] == 2  # the lane that waits in each phase
    assert drawn(tmp_path / "b.svg", (*STATES, "rrrG"))[WALK] == 2


def test_many_phases_are_drawn_in_seconds(tmp_path):
    file = SHIPPED.file
    assert file is not None
    many = tuple(
        each.model_copy(update={"id": f"{each.id}_{copy}", "agent_index": 5 * copy + number})
        for copy in range(8)
        for number, each in enumerate(file.junctions)
    )
    begun_s = time.process_time()
    shown = draw_network(file.model_copy(update={"junctions": many}), tmp_path / "a.png")
    assert len(shown) == 40
    assert time.process_time() - begun_s < 10
