"""``greenwave canary``: its arguments, what it deploys and prints."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from load_tests.harness.shipped import shipped_application, shipped_config
from models.policy.training_record import TrainingRecord, write_record
from serve_app.cli import canary as canary_command
from serve_app.processes.installation import instance_of, releases_of, releases_of_cluster
from serve_app.processes.ports import Ports
from serve_app.rollout import canary
from serve_app.rollout.config import find_faults
from tests.reference import random_state_dict
from tests.support.local_server import Answer, serving

Weights = dict[str, torch.Tensor]


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
def user_config(releases) -> Callable[[], dict[str, Any]]:
    """Return what is deployed of the inference service, which is a valid config."""

    def read() -> dict[str, Any]:
        config = releases.current()
        assert list(find_faults(config)) == []
        return canary.user_config_of(config, "inference")

    return read


@pytest.fixture
def save(tmp_path) -> Callable[..., str]:
    """Save a policy with random weights."""

    def save(name: str, seed: int = 0, change: Callable[[Weights], Weights] = dict) -> str:
        torch.save(change(random_state_dict(seed=seed)), tmp_path / name)
        return str(tmp_path / name)

    return save


@pytest.fixture
def file(save):
    return save("new.th")


@pytest.fixture
def run(greenwave):
    return lambda *words: greenwave("canary", *words)


def test_each_change_is_a_release_that_can_be_rolled_back(releases, sent, file, run, user_config):
    assert run("start", file).code == 0
    states = user_config()["canary"]["states"]
    assert user_config()["canary"]["share"] == 0.1
    shared = run("share", "25 %")
    assert user_config()["canary"]["share"] == 0.25
    previous = canary.user_config_of(releases.previous(), "inference")
    assert previous["canary"]["share"] == 0.1
    assert sent[-1] == releases.current()
    described = f"the policy of MAPPO_AGENT_PATH is in service, and {file} answers 25% of the runs"
    assert described in " ".join(shared.out.split())
    promoted = run("promote")
    assert promoted.code == 0
    assert f"{file} answers every run" in promoted.out
    assert f"agent_path: {file}" in promoted.out, "what the config file must say from now on"
    assert user_config() == {"agent_path": file, "revision": None, "states": states}
    assert run("drop").code == 1


def test_nothing_but_the_user_config_changes_so_nothing_restarts(releases, file, run, user_config):
    """The code on the disk may be newer than what serves."""
    assert run("start", file, "--shadow").code == 0
    shadow = user_config()["canary"]
    assert shadow.items() >= {"mode": "shadow", "share": 1.0}.items()
    assert run("start", file).code == 0
    assert user_config()["canary"] == shadow | {"mode": "canary", "share": 0.1}
    changed = releases.current()
    (deployment,) = changed["applications"][0]["deployments"]
    deployment["user_config"] = {"agent_path": None, "revision": None}
    assert changed == shipped_config()
    assert run("drop").code == 0
    assert releases.current() == shipped_config()


def test_there_is_one_canary_at_a_time_known_by_its_weights(
    releases, file, save, run, refuse, user_config
):
    run("start", file)
    same, other = save("same.th"), save("other.th", seed=1)
    run("start", same)
    assert user_config()["canary"]["agent_path"] == same
    refuse(f"canary start {other}", "same.th is the canary already. Promote or drop it first.")
    run("promote")
    refuse(f"canary start {file}", "is the policy in service")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda now: now | {"fc2.bias": torch.zeros(7)}, "shape (7,), expected (4,)"),
        (lambda now: {name: 1e30 * value for name, value in now.items()}, "a step is not finite"),
        (None, "no such file"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_the_reason(
    releases, sent, save, refuse, change, reason
):
    path = save("other.th", change=change) if change else "/nowhere/other.th"
    refuse(f"canary start {path}", reason)
    assert sent == []


def test_one_of_several_inference_applications_is_named(releases, file, run, refuse):
    config = shipped_config()
    config["applications"].append(shipped_application("inference", called="other", prefix="/o"))
    releases.add(releases.stage(config))
    for words in ("", "--app third"):
        refuse(f"canary start {file} {words}", "there are: inference, other")
    assert run("start", file, "--app", "other").code == 0
    assert canary.canary_of(canary.user_config_of(releases.current(), "other"))


def test_a_deployment_without_a_user_config_gets_one(releases, file, run, user_config):
    config = shipped_config()
    config["applications"][0]["deployments"] = []
    releases.add(releases.stage(config))
    run("start", file)
    assert user_config()["canary"]["share"] == 0.1


@pytest.mark.parametrize("action", ["share 50%", "promote"])
def test_a_missing_or_changed_file_gets_no_share_and_is_not_promoted(
    releases, file, save, run, refuse, action
):
    run("start", file)
    save("new.th", seed=9)
    refuse(f"canary {action}", "has another policy than the canary")
    Path(file).unlink()
    refuse(f"canary {action}", "new.th")
    assert run("drop").code == 0


def test_a_canary_that_counts_other_vehicles_is_refused(releases, sent, file, refuse):
    write_record(Path(file), TrainingRecord(counts="all"))
    refuse(f"canary start {file}", "its policies count different vehicles in an observation")
    assert sent == []


def test_a_canary_of_a_cluster_changes_what_was_deployed_there_from_here(
    ray_api, file, run, data_dir
):
    releases = releases_of_cluster(ray_api.url)
    releases.add(releases.stage(shipped_config()))
    assert run("start", file, "--cluster", ray_api.url).code == 0
    (sent,) = ray_api.sent
    assert canary.user_config_of(sent, "inference")["canary"]["share"] == 0.1
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


@pytest.mark.parametrize("action", ["promote", "drop", "share 5%"])
def test_without_a_canary_nothing_is_deployed(releases, sent, refuse, action):
    refuse(f"canary {action}", "There is no canary")
    assert sent == []


def test_without_a_release_there_is_nothing_to_change(sent, file, run):
    assert run("start", file) == (1, "", "Nothing is deployed yet.\n")
    assert run("status").code == 1


PAGE = """\
# HELP ray_inference_predictions_total Predictions made
# TYPE ray_inference_predictions_total counter
ray_inference_predictions_total{OURS,policy="primary",states="",action="0"} 30.0
ray_inference_predictions_total{OURS,policy="primary",states="",action="1"} 10.0
ray_inference_predictions_total{OURS,policy="candidate",states="new",action="1"} 5.0
ray_inference_predictions_total{OURS,policy="candidate",states="old",action="1"} 90.0
ray_inference_predictions_total{application="other",policy="primary",states="",action="1"} 70.0
# TYPE ray_inference_observed_values_total counter
ray_inference_observed_values_total{OURS,policy="primary",range="inside"} 95.0
ray_inference_observed_values_total{OURS,policy="primary",range="outside"} 5.0
# TYPE ray_inference_shadow_steps_total counter
ray_inference_shadow_steps_total{OURS,states="new",outcome="agreed"} 6.0
ray_inference_shadow_steps_total{OURS,states="new",outcome="differed"} 2.0
ray_inference_shadow_steps_total{OURS,states="new",outcome="skipped"} 7.0
# TYPE ray_inference_entropy histogram
ray_inference_entropy_bucket{OURS,policy="candidate",states="new",le="+Inf"} 4.0
ray_inference_entropy_count{OURS,policy="candidate",states="new"} 4.0
ray_inference_entropy_sum{OURS,policy="candidate",states="new"} 1.0
""".replace("OURS", 'application="inference"')


def test_the_status_compares_the_policies_over_the_nodes_that_answer(releases, ray_api, run):
    """The dashboard, which Ray lists after the nodes, has no metrics of policies."""
    config = shipped_config()
    shadow = {"agent_path": "/new.th", "mode": "shadow", "share": 1.0, "states": "new"}
    config["applications"][0]["deployments"][0]["user_config"] = {"canary": shadow}
    releases.add(releases.stage(config))
    ray_api.nodes *= 3
    with serving(lambda request: Answer(200, PAGE.encode())) as url:
        node = url.removeprefix("http://")
        ray_api.exporters = [node, node, "127.0.0.1:1", "127.0.0.1:2"]
        status, table = run("status", "--json"), run("status").out
    assert status.err.count("The metrics of the node at 127.0.0.1:1 are missing: ") == 1
    assert "127.0.0.1:2" not in status.err
    policies = json.loads(status.out)["policies"]
    served, tried = policies["in service"], policies["shadow"]
    assert (served["decisions"], tried["decisions"]) == (80, 10)
    assert (served["mean_entropy_nats"], tried["mean_entropy_nats"]) == (None, 0.25)
    assert served["observed_out_of_range"] == pytest.approx(0.05)
    assert (tried["shadow_compared"], tried["shadow_agreement"]) == (16, 0.75)
    assert served["shadow_agreement"] is None
    lines = (line.split("│")[1:-1] for line in table.splitlines() if "│" in line)
    rows = [[cell.strip() for cell in cells] for cells in lines]
    assert "since Ray started" in table
    assert ["decisions", "80", "10"] in rows
    assert ["mean entropy nats", "-", "0.250"] in rows
    assert ["shadow skipped", "0", "14"] in rows
