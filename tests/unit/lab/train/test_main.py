"""The command line of training."""

from __future__ import annotations

import argparse
import sys

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.train import __main__ as training


@pytest.mark.parametrize(
    "options", [["--sumocfg", "town.sumocfg"], ["--decision", "20"], ["--begin", "0"]]
)
def test_options_of_a_city_are_refused_without_its_network(options, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["training", *options, "--output", str(tmp_path / "run")])
    monkeypatch.setattr(training, "run", lambda options: pytest.fail("the training began"))
    with pytest.raises(SystemExit):
        training.main()
    assert f"{options[0]} belongs to a city: add its --network" in capsys.readouterr().err


def test_the_shipped_network_is_trained_with_counts_and_in_cyclic_order(monkeypatch, tmp_path):
    begun: list[argparse.Namespace] = []
    rules = ["--counts", "all", "--cyclic", "--safety"]
    monkeypatch.setattr(sys, "argv", ["training", *rules, "--output", str(tmp_path / "run")])
    monkeypatch.setattr(training, "run", begun.append)
    training.main()
    assert (begun[0].counts, begun[0].cyclic) == ("all", True)
