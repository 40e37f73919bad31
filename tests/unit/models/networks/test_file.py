"""A network file is checked on load, with a sentence for each mistake."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.networks.file import InvalidNetworkError, network_as_json, read_network_file
from models.networks.network import read_network
from tests.cities import entry


def crossing(**changed: Any) -> dict[str, Any]:
    """Return a junction with all that a file may say of one."""
    return {
        "id": "market",
        "agent_index": 0,
        "phases": [{"state": "Gr", "name": "main road"}, {"state": "rG"}],
        "lanes": [
            {"id": "a_0", "capacity": 20, "shape": [[0, 0], [0, 9]]},
            {"id": "b_0", "capacity": 9},
        ],
        "links": [{"lane": "a_0", "to": "c_0"}, {"lane": "b_0", "to": "c_0", "turn": "r"}],
        "position": [1.5, -2],
        "intergreen_s": [[None, 3], [4, None]],
    } | changed


def detector(name: str = "d1", **changed: Any) -> dict[str, Any]:
    return {"id": name, "kind": "stop_line", "lanes": ["a_0"], "distance_m": 1} | changed


def one(**changed: Any) -> dict[str, Any]:
    return city(crossing(**changed))


def seen(*detectors: dict[str, Any]) -> dict[str, Any]:
    return one(detectors=detectors)


def written(folder, content: object) -> str:
    path = folder / "city.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def city(*junctions: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {"name": "town", "junctions": list(junctions)} | changed


def test_a_file_that_says_everything_is_read_and_written_without_a_loss(tmp_path):
    advance = detector("d2", kind="advance", distance_m=45.5, length_m=3, lanes=["a_0", "b_0"])
    said = crossing(detectors=[detector(), advance])
    read = read_network_file(written(tmp_path, city(said, entry("b", 1))))
    assert read.junctions[0].intergreen_s == ((None, 3), (4, None))
    first, second = read.junctions[0].detectors
    assert (first.kind, first.lanes, first.length_m) == ("stop_line", ("a_0",), 2)
    assert (second.kind, second.distance_m, second.length_m) == ("advance", 45.5, 3)
    again = read_network_file(written(tmp_path, network_as_json(read)))
    assert again == read


def test_toml_is_read_as_well(tmp_path):
    path = tmp_path / "city.toml"
    path.write_text(
        'name = "town"\n[[junctions]]\nid = "a"\nagent_index = 0\nphases = [{}, {}]\n'
        'lanes = [{ id = "a_0", capacity = 12 }]\n'
    )
    assert read_network(path).junctions["a"].obs_size == 4


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "JSON"),
        (city(entry("a", 0), entry("a", 1)), "junction 'a' stands there twice"),
        (city(entry("a", 0), entry("b", 0)), "two junctions have agent_index 0"),
        (city(entry("a", 0), entry("b", 2)), "agent_index must be 0 to 1; 1 is missing"),
        (one(colour="red"), "junctions.0.colour: Extra inputs are not permitted"),
        (
            one(lanes=[{"id": "a_0", "capacity": 1}] * 2),
            "junctions.0: lane 'a_0' stands there twice",
        ),
        (one(phases=[{"state": "Gr"}, {}]), "junctions.0: either all phases have a state or none"),
        (
            one(phases=[{"state": "Gr"}, {"state": "G"}]),
            "junctions.0: the states of the phases differ in length",
        ),
        (one(phases=[{"state": "Gr"}, {"state": "yr"}]), "junctions.0: phase 1 has no green"),
        (
            one(phases=[{"state": "Gr"}, {"state": "Gr"}]),
            "junctions.0: no phase gives green to lane b_0",
        ),
        (one(phases=[{"state": "Grr"}]), "junctions.0: states of 3 letters for 2 links"),
        (
            one(links=[{"lane": "a_0", "to": "c_0"}, {"lane": "d_0", "to": "c_0"}]),
            "junctions.0: no link begins on lane b_0",
        ),
        (
            one(intergreen_s=[[None]]),
            "junctions.0: intergreen_s must be 2 by 2, as there are links",
        ),
        (
            one(intergreen_s=[[None, 61], [3, None]]),
            "junctions.0: intergreen_s has times that are not from 0 to 60 s",
        ),
        (
            city(entry("a", 0) | {"intergreen_s": [[1]]}),
            "junctions.0: intergreen_s needs links, or phases with states",
        ),
        (
            seen(detector(lanes=["z_0"])),
            "detector 'd1' names lane 'z_0', which the junction does not",
        ),
        (seen(detector(lanes=["a_0", "a_0"])), "detector 'd1' names lane 'a_0' twice"),
        (
            seen({"id": "d1", "kind": "advance", "lanes": ["a_0"]}),
            "advance detector 'd1' needs distance_m, metres to the stop line",
        ),
        (seen(detector(), detector(lanes=["b_0"])), "two detectors have the id 'd1'"),
        (
            seen(detector(), detector("d2")),
            "lane 'a_0' has two stop_line detectors, 'd1' and 'd2'; declare them as one",
        ),
        (
            seen(detector(distance_m=20), detector("d2", kind="advance", distance_m=20)),
            "advance detector 'd2' is not farther from the stop line than 'd1'",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_mistake_is_refused_with_its_place_and_a_sentence(tmp_path, content, sentence):
    path = written(tmp_path, content)
    with pytest.raises(InvalidNetworkError) as refusal:
        read_network_file(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert sentence in str(refusal.value)


def test_many_mistakes_are_told_up_to_a_bound(tmp_path):
    path = written(tmp_path, city(*({"id": f"j{n}"} for n in range(30))))
    with pytest.raises(InvalidNetworkError, match=r"and \d\d further mistakes"):
        read_network_file(path)


def test_a_key_that_an_object_has_twice_is_refused(tmp_path):
    path = Path(written(tmp_path, city(crossing())))
    path.write_text(path.read_text().replace('"id"', '"id": "first", "id"', 1))
    with pytest.raises(InvalidNetworkError, match="an object has the key 'id' twice"):
        read_network_file(path)


@pytest.mark.parametrize("name", ["missing.json", ""], ids=["missing", "a folder"])
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path, name):
    with pytest.raises(InvalidNetworkError, match=f"{tmp_path / name}: cannot be read: "):
        read_network_file(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("city.toml", "name = ", ""),
        ("city.json", "  \n", "is empty"),
        ("city.json", "<net version='1.20'/>", "is XML; make a network file of a SUMO"),
    ],
)
def test_a_file_of_another_kind_is_told_with_what_to_do(tmp_path, name, content, sentence):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidNetworkError, match=f"{name}: {sentence}"):
        read_network_file(tmp_path / name)


def test_limits_of_detectors_are_those_of_the_network_but_for_what_a_lane_says(tmp_path):
    lanes = [{"id": "a_0", "capacity": 20, "detector": {"stuck": 5}}, {"id": "b_0", "capacity": 9}]
    path = written(tmp_path, city(crossing(lanes=lanes), detectors={"stuck": 7, "no_activity": 30}))
    network = read_network_file(path)
    first, second = network.junctions[0].lanes
    assert (network.detectors.stuck, network.detectors.no_activity) == (7, 30)
    assert first.detector is not None
    assert first.detector.model_fields_set == {"stuck"}
    assert second.detector is None
    again = read_network_file(written(tmp_path, network_as_json(network)))
    assert again == network
    assert again.junctions[0].lanes[0].detector == first.detector
    (kept,) = [lane.detector for lane in again.junctions[0].lanes if lane.detector]
    assert kept.model_fields_set == {"stuck"}, "otherwise defaults would replace the network's"


def test_lanes_are_green_in_the_phases_of_their_links(tmp_path):
    (junction,) = read_network_file(written(tmp_path, city(crossing()))).junctions
    assert junction.phases_of_lanes() == (frozenset({0}), frozenset({1}))
