import sys

import pytest

from lab.train.untrained import main, save_untrained
from models.networks.file import network_as_json
from models.policy.file import read_weights
from tests.cities import city_of, entry, small_city


def test_an_untrained_policy_fits_its_network_and_no_other(tmp_path):
    save_untrained(tmp_path / "new" / "agent.th", small_city())
    assert read_weights(tmp_path / "new" / "agent.th", small_city())["fc1.weight"].shape[1] == 10


def test_the_command_reads_the_file_and_writes_weights(tmp_path, monkeypatch):
    network = city_of(entry("a", 0))
    assert network.file is not None
    (tmp_path / "city.json").write_text(network_as_json(network.file))
    arguments = ["untrained", str(tmp_path / "city.json"), str(tmp_path / "agent.th")]
    monkeypatch.setattr(sys, "argv", [*arguments, "--no-agent-id"])
    assert main() == 0
    assert read_weights(tmp_path / "agent.th", network)["fc1.weight"].shape[1] == network.max_obs


def test_a_file_that_is_no_network_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["untrained", str(tmp_path / "none.json"), "x.th"])
    with pytest.raises(SystemExit):
        main()
    assert "none.json: cannot be read" in capsys.readouterr().err
