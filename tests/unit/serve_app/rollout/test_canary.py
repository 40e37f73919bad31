"""A canary in the serve config: started, changed, promoted and dropped."""

from pathlib import Path
from typing import Any

import pytest
import torch

from load_tests.harness.shipped import shipped_application, shipped_config
from models.policy.form import InvalidPolicyFileError
from serve_app.errors import CommandError
from serve_app.rollout import canary
from serve_app.rollout.config import find_faults
from serve_app.rollout.model_files import find_file_faults
from tests.reference import random_state_dict

Config = dict[str, Any]
APP = "inference"


@pytest.fixture
def config():
    return shipped_config()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "new.th"
    torch.save(random_state_dict(), path)
    return path


def start(config: Config, file: Path, **changes: Any) -> Config:
    given: dict[str, Any] = {"mode": "canary", "share": 0.1} | changes
    return canary.start_canary(config, APP, file, **given)


def user_config(config: Config) -> dict[str, Any]:
    assert list(find_faults(config)) == []
    return canary.user_config_of(config, APP)


def test_nothing_but_the_user_config_is_changed(config, file):
    changed = start(config, file)
    assert user_config(config)["agent_path"] is None, "the config before is as it was"
    (mine,) = [each for each in changed["applications"] if each["name"] == APP]
    mine["deployments"][0]["user_config"] = {"agent_path": None, "revision": None}
    assert changed == config


def test_a_shadow_becomes_a_canary(config, file):
    shadow = start(config, file, mode="shadow", share=1.0)
    became = user_config(start(shadow, file))["canary"]
    assert became == user_config(shadow)["canary"] | {"mode": "canary", "share": 0.1}


def test_there_is_one_canary_at_a_time_known_by_its_weights(config, file, tmp_path):
    now = start(config, file)
    same, other = tmp_path / "same.th", tmp_path / "other.th"
    same.write_bytes(file.read_bytes())
    assert user_config(start(now, same))["canary"]["agent_path"] == str(same)
    torch.save(random_state_dict(seed=1), other)
    with pytest.raises(CommandError, match=r"new.th is the canary already. Promote or drop it"):
        start(now, other)
    with pytest.raises(CommandError, match="is the policy in service"):
        start(canary.promote_canary(now, APP), file)


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        (lambda now: now | {"fc2.bias": torch.zeros(7)}, r"shape \(7,\), expected \(4,\)"),
        (lambda now: {name: 1e30 * value for name, value in now.items()}, "a step is not finite"),
        (None, "no such file"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_the_reason(config, tmp_path, weights, reason):
    if weights is not None:
        torch.save(weights(random_state_dict()), tmp_path / "other.th")
    with pytest.raises((CommandError, InvalidPolicyFileError), match=reason):
        start(config, tmp_path / "other.th")


def test_a_deploy_refuses_a_canary_that_does_not_fit(config, file):
    now = start(config, file)
    file.write_bytes(b"nothing")
    assert any("new.th" in fault for fault in find_file_faults(now))


def test_one_of_several_inference_applications_is_named(config):
    assert canary.inference_app(config, None) == APP
    config["applications"].append(shipped_application("inference", called="other", prefix="/o"))
    assert canary.inference_app(config, "other") == "other"
    for name in (None, "third"):
        with pytest.raises(CommandError, match="there are: inference, other"):
            canary.inference_app(config, name)


def test_a_deployment_without_a_user_config_gets_one(config, file):
    (application,) = [each for each in config["applications"] if each["name"] == APP]
    application["deployments"] = []
    assert user_config(start(config, file))["canary"]["share"] == 0.1


@pytest.mark.parametrize(
    "change",
    [lambda now: canary.set_share(now, APP, 0.5), lambda now: canary.promote_canary(now, APP)],
)
def test_a_missing_or_changed_file_gets_no_share_and_is_not_promoted(config, file, change):
    now = start(config, file)
    torch.save(random_state_dict(seed=9), file)
    with pytest.raises(CommandError, match="has another policy than the canary"):
        change(now)
    file.unlink()
    with pytest.raises(InvalidPolicyFileError, match=r"new\.th"):
        change(now)
    assert canary.drop_canary(now, APP) == config


def test_a_config_that_ends_a_canary_or_a_promotion_is_reported(config, file):
    tried = start(config, file)
    promoted = canary.promote_canary(tried, APP)
    assert canary.replaced_by(config, config) == []
    assert canary.replaced_by(tried, tried) == []
    (ends,) = canary.replaced_by(config, tried)
    assert ends.startswith(f"The canary {file} ends")
    (replaced,) = canary.replaced_by(config, promoted)
    assert replaced.startswith(f"The promoted policy {file} is replaced")
