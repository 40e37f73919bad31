"""The picture of a network shows the ways that each phase lets go, and where people walk."""

import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from lab.net.drawing import draw_network
from models.networks.shipped import SHIPPED_FILE
from tests.cities import crossing

STATES = "Ggrr", "rrGG"
LANES = {
    "west": {"capacity": 9, "shape": [(-80, 0), (-9, 0)]},
    "north": {"capacity": 9, "shape": [(0, 80), (0, 9)]},
}
LINKS = (
    *(("west", "east"), ("west", "top", "l"), ("north", "south")),
    (":a_w0_0", ":a_c0_0", "s", [(-9, 9), (-9, -9)]),
)


def drawn(path: Path, states: tuple[str, ...] = STATES) -> Counter[str | None]:
    """Return the number of lines of each kind."""
    network = crossing(states, LANES, LINKS).model_copy(update={"name": "a & b"})
    draw_network(network, path)
    return Counter(each.get("class") for each in ET.parse(path).iter() if "path" in each.tag)


def test_each_green_way_is_an_arrow_and_each_walk_a_bar(tmp_path):
    lines = drawn(tmp_path / "a.svg")
    assert (lines["G"], lines["g"], lines["walk"]) == (2, 1, 1)
    assert lines["red"] == 2  # the lane that waits in each phase
    assert drawn(tmp_path / "b.svg", (*STATES, "rrrG"))["walk"] == 2


def test_of_many_junctions_the_first_are_drawn(tmp_path):
    file = SHIPPED_FILE
    many = tuple(
        each.model_copy(update={"id": f"{each.id}_{copy}", "agent_index": 5 * copy + number})
        for copy in range(10)
        for number, each in enumerate(file.junctions)
    )
    network = file.model_copy(update={"junctions": many})
    assert draw_network(network, tmp_path / "a.svg") == many[:40]
    assert draw_network(network, tmp_path / "a.svg", [many[-1].id]) == many[-1:]
