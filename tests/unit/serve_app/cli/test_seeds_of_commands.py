"""Seeds that SUMO does not take are refused before anything is read."""

import pytest

from serve_app.cli.main import main

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


def test_a_file_in_place_of_the_folder_is_refused(tmp_path, capsys):
    (tmp_path / "page").write_text("mine")
    assert (
        main(["lab", "evaluate", "--network", "no.json", "--output", str(tmp_path / "page")]) == 1
    )
    assert "is a file. --output must name a folder." in capsys.readouterr().err
    assert (tmp_path / "page").read_text() == "mine"
