"""The command line of training."""

import argparse
import sys
from dataclasses import replace

import pytest

from lab.train import __main__ as training
from lab.train.mappo import Config
from lab.train.run import Trained


@pytest.mark.parametrize(
    "options", [["--sumocfg", "a"], ["--begin", "0"], ["--counts", "all", "--resco", "b"]]
)
def test_options_of_a_city_are_refused_without_its_network(options, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["training", *options, "--output", str(tmp_path / "run")])
    monkeypatch.setattr(training, "run", lambda options: pytest.fail("the training began"))
    with pytest.raises(SystemExit):
        training.main()
    assert f"{options[0]} belongs to a city: add its --network" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--resco", "maps/nowhere"], "maps/nowhere is not a map of RESCO; these are: grid4x4, "),
        (["--resco", "maps/cologne1"], "maps/cologne1/cologne1.sumocfg is not there."),
        (["--resco", "maps/cologne1", "--network", "a.json"], "a map with its own --network"),
    ],
)
def test_only_a_map_of_resco_that_is_there_is_trained_for(
    options, said, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(sys, "argv", ["training", *options, "--output", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as ended:
        training.main()
    assert said in f"{ended.value} {capsys.readouterr().err}"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("after_s", "sentence"),
    [
        ([41.0, 43.0, 42.0], "The difference, 3.0 ± 0.0 s, is more than chance explains."),
        ([45.0, 44.0, 46.0], "The difference, 0.0 ± 4.3 s, is not more than chance explains."),
    ],
)
def test_the_end_of_a_training_says_whether_it_was_more_than_chance(after_s, sentence):
    assert str(Trained(40.0, [], [41.0, 43.0])).endswith(
        " chosen it, vehicles lose 42.0 s under it."
    )
    said = str(Trained(40.0, [44.0, 46.0, 45.0], after_s))
    assert said.startswith("On 3 runs that have not chosen it, vehicles lose")
    assert sentence in said


def settings_of(monkeypatch: pytest.MonkeyPatch, *options: str) -> Config:
    begun: list[argparse.Namespace] = []
    monkeypatch.setattr(sys, "argv", ["training", *options, "--output", "run"])
    monkeypatch.setattr(training, "run", begun.append)
    training.main()
    return training.settings_of(begun[0])


def test_without_a_network_the_shipped_policies_are_made_and_cities_have_the_defaults(monkeypatch):
    shipped = Config(imitation_rounds=14, iterations=0)
    assert settings_of(monkeypatch) == shipped
    assert settings_of(monkeypatch, "--safety", "--counts", "all", "--cyclic") == shipped
    changed = settings_of(monkeypatch, "--iterations", "5", "--gamma", "0.9")
    assert changed == replace(shipped, iterations=5, gamma=0.9)
    city = settings_of(monkeypatch, "--network", "city.json", "--safety", "--episodes", "6")
    assert city == Config(episodes=6)
