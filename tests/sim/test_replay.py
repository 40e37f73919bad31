"""A run is shown again with the same signals, so the same vehicles lose the same time."""

from dataclasses import replace as changed

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.sim.controllers import CONTROLS, Control, policy_control, run
from lab.sim.replay import record, replay
from lab.train.untrained import save_untrained
from models.networks.network import network_of
from serve_app.cli import main as cli
from tests.sim.towns import END_S, Town


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    return Town(tmp_path_factory.mktemp("town"))


@pytest.mark.parametrize("controller", ["fixed time", "Webster", "greedy", "policy"])
@pytest.mark.parametrize("guarded", [False, True])
def test_the_replay_of_a_run_has_its_delay(town, tmp_path, controller, guarded):
    scenario = changed(town.scenario, begin_s=30, guarded=guarded)
    control: Control
    if controller == "policy":
        save_untrained(tmp_path / "agent.th", network_of(scenario.network))
        control = policy_control(scenario, tmp_path / "agent.th")
    else:
        control = CONTROLS[controller](scenario)
    driven = run(scenario, 3, control)
    again = replay(scenario, 3, record(scenario, 3, control), gui=False)
    figures = [
        (each.delay_s, each.waiting_s, each.trip_s, each.arrived, each.demanded)
        for each in (driven, again)
    ]
    assert figures[0] == figures[1]
    assert driven.arrived > 50


def called(town: Town, *options: str) -> int:
    files = f"--network={town.network}", f"--net={town.net}", f"--routes={town.routes}"
    return cli.main(["lab", "replay", *files, f"--end={END_S}", *options])


def test_the_command_reports_the_delay(town, capsys):
    assert called(town, "--controller=greedy", "--seed=2", "--no-gui") == 0
    delay_s = run(town.scenario, 2, CONTROLS["greedy"](town.scenario)).delay_s
    said = f"greedy, seed 2: {delay_s:.1f} s of delay per vehicle."
    assert said in capsys.readouterr().err


def test_a_city_without_vehicles_has_no_delay(town, tmp_path, capsys):
    (tmp_path / "empty.rou.xml").write_text("<routes/>")
    empty = f"--routes={tmp_path / 'empty.rou.xml'}"
    assert called(town, "--controller=greedy", "--no-gui", empty) == 0
    assert "greedy, seed 1: no vehicles." in capsys.readouterr().err


def test_without_a_display_and_with_unknown_names_it_ends_in_a_sentence(town, capsys, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    assert called(town, "--controller=greedy") == 1
    assert "There is no display for sumo-gui, as DISPLAY is not set." in capsys.readouterr().err
    assert called(town, "--controller=best", "--no-gui") == 1
    assert "--controller must be one of: fixed time, Webster," in capsys.readouterr().err
    assert called(town, "--policy=no.th", "--no-gui") == 1
    assert "no.th: no such file" in capsys.readouterr().err


def test_a_window_that_cannot_be_opened_is_reported(town, capsys, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":987")  # no such display
    assert called(town, "--controller=fixed time") == 1
    assert "sumo-gui has failed: " in capsys.readouterr().err
