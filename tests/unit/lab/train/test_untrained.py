import sys

import pytest

from lab.train.untrained import main
from models.networks.file import network_as_json
from models.policy.file import read_weights
from tests.cities import city_of, entry


def test_an_untrained_policy_of_a_networks_file_fits_it(tmp_path, monkeypatch):
    network, policy = city_of(entry("a", 0)), tmp_path / "new" / "agent.th"
    assert network.file is not None
    (tmp_path / "city.json").write_text(network_as_json(network.file))
    monkeypatch.setattr(sys, "argv", ["untrained", str(tmp_path / "city.json"), str(policy)])
    assert main() == 0
    assert read_weights(policy, network)["fc1.weight"].shape[1] == network.max_obs + 1


def test_a_file_that_is_no_network_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["untrained", str(tmp_path / "none.json"), "x.th"])
    with pytest.raises(SystemExit):
        main()
    assert "none.json: cannot be read" in capsys.readouterr().err
