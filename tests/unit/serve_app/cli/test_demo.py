"""The command line of the demo and of other simulations: what does not go together."""

import argparse

import pytest

from greenwave.client import Addresses
from serve_app.cli import demo
from serve_app.cli.main import main
from serve_app.errors import CommandError


@pytest.mark.parametrize(("ports", "port"), [([], 8080), (["--port-base", "31000"], 31020)])
def test_a_second_instance_has_an_address_of_its_own(ports, port, monkeypatch):
    pytest.importorskip("libsumo", reason="SUMO is not installed")
    asked = []

    def refuse(options: argparse.Namespace, addresses: Addresses) -> None:
        asked.append(addresses.gateway)
        raise CommandError("stop here")

    monkeypatch.setattr(demo, "make_client", refuse)
    assert main(["demo", *ports]) == 1
    assert asked == [f"http://127.0.0.1:{port}"]


@pytest.mark.parametrize(
    "options",
    [
        ["--begin", "25:00"],
        ["--begin", "x"],
        ["--seconds", "7"],
        ["--sumocfg", "city.sumocfg"],
        ["--cyclic"],
        ["--seconds", "600", "--network", "city.json"],
    ],
)
def test_impossible_options_are_refused(options, capsys):
    with pytest.raises(SystemExit):
        main(["demo", *options])
    assert options[0] in capsys.readouterr().err


def test_an_unusable_address_is_a_sentence(refuse):
    pytest.importorskip("libsumo", reason="SUMO is not installed")
    refuse("demo --url localhost:8000", "not 'localhost:8000'")


def test_a_network_file_that_is_not_there_is_reported_before_any_call(refuse):
    pytest.importorskip("libsumo", reason="SUMO is not installed")
    refuse("demo --network nowhere.json --sumocfg city.sumocfg", "nowhere.json: cannot be read")


DEMAND = ["lab", "demand", "no.net.xml", "--entries", "no.csv", "--output", "no.rou.xml"]
DEMO = ["demo", "--url", "http://127.0.0.1:1"]
SIMULATE = ["lab", "shadow", "simulate", "--output", "no.jsonl"]
EVALUATE = ["lab", "evaluate", "--network", "no.json", "--output", "no"]


@pytest.mark.parametrize("seed", ["-3", "99999999999"])
def test_the_commands_say_which_seeds_there_are(seed, capsys):
    for command in (DEMAND, DEMO, SIMULATE):
        assert main([*command, "--seed", seed]) == 1
        assert "--seed must be 0 to 2147483647." in capsys.readouterr().err
    assert main([*EVALUATE, "--first-seed", seed]) == 1
    assert "Seeds must be 0 to 2147483647." in capsys.readouterr().err


@pytest.mark.parametrize("option", ["output", "export"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_runs(tmp_path, capsys, option):
    (tmp_path / "page").write_text("mine")
    folders = {"output": tmp_path / "new", option: tmp_path / "page" / "of"}
    words = [f"--{name}={folder}" for name, folder in folders.items()]
    assert main(["lab", "evaluate", "--network", "no.json", *words]) == 1
    assert capsys.readouterr().err == f"{tmp_path / 'page' / 'of'}: Not a directory\n"
    assert [path.name for path in tmp_path.iterdir()] == ["page"]
