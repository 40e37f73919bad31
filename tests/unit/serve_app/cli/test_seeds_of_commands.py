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


@pytest.mark.parametrize("option", ["output", "export"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_runs(tmp_path, capsys, option):
    (tmp_path / "page").write_text("mine")
    folders = {"output": tmp_path / "new", option: tmp_path / "page" / "of"}
    words = [f"--{name}={folder}" for name, folder in folders.items()]
    assert main(["lab", "evaluate", "--network", "no.json", *words]) == 1
    assert capsys.readouterr().err == f"{tmp_path / 'page' / 'of'}: Not a directory\n"
    assert [path.name for path in tmp_path.iterdir()] == ["page"]
