"""``greenwave network``: files in, files and sentences out."""

import json

import pytest

from models.networks.file import read_network_file
from models.networks.shipped import NET_FILE
from serve_app.cli.main import main
from tests.unit.lab.net.sumo_nets import LINKS, NODE, ROADS, lane, link, program, write_net


@pytest.fixture
def city(tmp_path):
    path = tmp_path / "city.json"
    assert main(["network", "import", str(NET_FILE), "--output", str(path)]) == 0
    return path


def test_the_import_is_printed_unless_a_file_is_named(tmp_path, capsys, city):
    assert main(["network", "import", str(NET_FILE)]) == 0
    printed = capsys.readouterr()
    assert printed.out == city.read_text()
    assert "N_AGENTS 5, N_ACTIONS 4, MAX_OBS 19; 34 incoming lanes" in printed.err
    path = tmp_path / "two.json"
    options = ["--name", "two", "--signals", "300839359,265580972", "--output", str(path)]
    assert main(["network", "import", str(NET_FILE), *options]) == 0
    network = read_network_file(path)
    assert network.name == "two"
    assert {each.id for each in network.junctions} == {"300839359", "265580972"}


def test_check_prints_the_sizes_or_the_mistakes(tmp_path, capsys, city, refuse):
    assert main(["network", "check", str(city)]) == 0
    assert "MAX_OBS 19" in capsys.readouterr().err
    assert main(["network", "check", str(city), "--json"]) == 0
    sizes = {"n_agents": 5, "n_actions": 4, "max_obs": 19, "lanes": 34}
    assert json.loads(capsys.readouterr().out).items() >= sizes.items()
    city.write_text(city.read_text().replace('"agent_index": 4', '"agent_index": 7'))
    refuse(f"network check {city}", "agent_index must be 0 to 4; 4 is missing")


def test_show_draws_all_junctions_or_those_named(capsys, city):
    assert main(["network", "show", str(city), "--junctions", "300839359"]) == 0
    assert city.with_suffix(".svg").stat().st_size > 1000
    printed = capsys.readouterr().err
    assert "300839359 phase 0: west and east" in printed
    assert "phases of 1 junctions" in printed


def test_show_lists_crossings_and_what_the_import_merged(tmp_path, capsys):
    walked = lane(":a_w0", "9,9 9,-9", "walkingarea") + lane(":a_c0", "9,9 9,-9", "crossing")
    states = program(("GrG", "Grr", "yrr", "rGr"))
    net = write_net(tmp_path, ROADS, walked, NODE, states, LINKS, link(":a_w0", ":a_c0", 2))
    city = tmp_path / "city.json"
    assert main(["network", "import", str(net), "--output", str(city)]) == 0
    capsys.readouterr()
    assert main(["network", "show", str(city), "--output", str(tmp_path / "a.svg")]) == 0
    printed = capsys.readouterr().err
    assert "a crossing :a_c0: walk 7 s, clearance 0 s, in phases 0" in printed
    assert "a: Grr is not an action, as GrG differs only in crossings." in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["import", "nowhere.net.xml"], "cannot be read: No such file"),
        (["import", str(NET_FILE), "--signals", "x"], "has no signal x."),
        (["import", str(NET_FILE), "--program", "x"], "has no program x; it has 0."),
        (["import", str(NET_FILE), "--output", "/nowhere/city.json"], "No such file"),
        (["show", "CITY", "--junctions", "x"], "has no junction x."),
        (["show", "CITY", "--output", "city.png"], "the name must end with .svg"),
    ],
)
def test_bad_input_ends_in_one_sentence(capsys, city, words, sentence):
    capsys.readouterr()
    assert main(["network", *(str(city) if each == "CITY" else each for each in words)]) == 1
    printed = capsys.readouterr().err.strip()
    assert sentence in printed
    assert "\n" not in printed


def test_an_empty_list_of_signals_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["network", "import", str(NET_FILE), "--signals", ","])
    assert "--signals: names no signal" in capsys.readouterr().err
