"""``greenwave canary``: its arguments, what it deploys and prints."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from load_tests.harness.shipped import shipped_config
from serve_app.cli import canary as canary_command
from serve_app.processes.installation import instance_of, releases_of, releases_of_cluster
from serve_app.processes.ports import Ports
from serve_app.rollout import canary
from tests.reference import random_state_dict


@pytest.fixture
def sent(data_dir, ray_api, monkeypatch):
    """Return the configs that a running instance has got."""
    port = int(ray_api.url.rpartition(":")[2])
    instance = replace(instance_of(None), ports=replace(Ports(), dashboard=port))
    monkeypatch.setattr(canary_command, "running", lambda options: instance)
    monkeypatch.setattr(canary_command, "print_problems", lambda instance, config: None)
    return ray_api.sent


@pytest.fixture
def releases(sent):
    releases = releases_of(instance_of(None))
    releases.add(releases.stage(shipped_config()))
    return releases


@pytest.fixture
def file(tmp_path):
    torch.save(random_state_dict(), tmp_path / "new.th")
    return str(tmp_path / "new.th")


@pytest.fixture
def run(greenwave):
    return lambda *words: greenwave("canary", *words)


def running(config: dict[str, Any] | None) -> dict[str, Any]:
    assert config is not None
    found = canary.canary_of(canary.user_config_of(config, "inference"))
    assert found is not None
    return found


def test_each_change_is_a_release_that_can_be_rolled_back(releases, sent, file, run):
    assert run("start", file).code == 0
    assert running(releases.current())["share"] == 0.1
    states = running(releases.current())["states"]
    shared = run("share", "25 %")
    assert running(releases.current())["share"] == 0.25
    assert running(releases.previous())["share"] == 0.1
    assert sent[-1] == releases.current()
    described = f"the policy of MAPPO_AGENT_PATH is in service, and {file} answers 25% of the runs"
    assert described in " ".join(shared.out.split())
    promoted = run("promote")
    assert promoted.code == 0
    assert f"{file} answers every run" in promoted.out
    assert f"agent_path: {file}" in promoted.out, "what the config file must say from now on"
    now = canary.user_config_of(releases.current(), "inference")
    assert now == {"agent_path": file, "revision": None, "states": states}
    assert run("drop").code == 1


def test_a_canary_restarts_nothing_even_if_the_code_on_the_disk_is_newer(releases, file, run):
    before = releases.current()["applications"]
    assert run("start", file, "--shadow").code == 0
    now = releases.current()["applications"]
    assert [each.get("runtime_env") for each in now] == [each.get("runtime_env") for each in before]
    assert running(releases.current()).items() >= {"mode": "shadow", "share": 1.0}.items()


def test_a_canary_that_was_not_trained_for_the_safety_layer_is_refused(releases, sent, file, run):
    config = shipped_config()
    (gateway,) = [each for each in config["applications"] if each["name"] == "gateway"]
    gateway["args"] = {"safety": True}
    releases.add(releases.stage(config))
    refused = run("start", file)
    assert refused.code == 1
    assert "new.th was not trained behind the safety layer" in " ".join(refused.err.split())
    assert sent == []
    gateway["args"]["safety_policy"] = "any"
    releases.add(releases.stage(config))
    assert run("start", file).code == 0


def test_a_canary_of_a_cluster_changes_what_was_deployed_there_from_here(
    ray_api, file, run, data_dir
):
    releases = releases_of_cluster(ray_api.url)
    releases.add(releases.stage(shipped_config()))
    assert run("start", file, "--cluster", ray_api.url).code == 0
    (sent,) = ray_api.sent
    assert running(sent)["share"] == 0.1
    assert releases.current() == sent
    assert f"{file} answers 10% of the runs" in run("status", "--cluster", ray_api.url).out
    ray_api.status = 500
    assert run("status", "--cluster", ray_api.url).code == 1


@pytest.mark.parametrize("share", ["101%", "10", "-1%", "much", "0.5"])
def test_a_share_is_in_percent(releases, sent, file, run, share, capsys):
    with pytest.raises(SystemExit):
        run("start", file, f"--share={share}")
    assert "is not a share from 0% to 100%, such as 10%" in capsys.readouterr().err
    assert sent == []


@pytest.mark.parametrize("words", [["promote"], ["drop"], ["share", "5%"]])
def test_without_a_canary_nothing_is_deployed(releases, sent, run, words):
    refused = run(*words)
    assert refused.code == 1
    assert refused.err.startswith("There is no canary")
    assert sent == []


def test_without_a_release_there_is_nothing_to_change(sent, file, run):
    assert run("start", file) == (1, "", "Nothing is deployed yet.\n")
    assert run("status").code == 1


def test_the_status_is_json_even_if_a_node_does_not_answer(releases, ray_api, run):
    ray_api.exporters = ["127.0.0.1:1"]
    status = run("status", "--json")
    assert set(json.loads(status.out)["policies"]) == {"in service"}
    assert "The metrics of the node at 127.0.0.1:1 are missing" in status.err
