"""A policy tried beside another: what the commands make of the config that is deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from load_tests.harness.shipped import shipped_application, shipped_config
from serve_app.errors import CommandError
from serve_app.rollout import canary
from serve_app.rollout.config import find_faults
from serve_app.rollout.model_files import faults_of_weights
from tests.reference import random_state_dict

Config = dict[str, Any]
APP = "inference"


@pytest.fixture
def config() -> Config:
    return shipped_config()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "new.th"
    torch.save(random_state_dict(), path)
    return path


def start(config: Config, file: Path, revision: str | None = None, **changes: Any) -> Config:
    given: dict[str, Any] = {"mode": "canary", "share": 0.1, "revision": revision} | changes
    return canary.started(config, APP, file, **given)


def user_config(config: Config) -> dict[str, Any]:
    assert list(find_faults(config)) == []
    return canary.user_config_of(config, APP)


def test_nothing_but_the_user_config_is_changed(config, file):
    changed = start(config, file)
    assert user_config(config)["agent_path"] is None, "the config before is as it was"
    (mine,) = [each for each in changed["applications"] if each["name"] == APP]
    mine["deployments"][0]["user_config"] = {"agent_path": None, "revision": None}
    assert changed == config


def test_a_trial_from_its_start_to_its_promotion(config, file):
    now = start(config, file)
    candidate = user_config(now)["candidate"]
    assert candidate["agent_path"] == str(file)
    assert (candidate["mode"], candidate["share"]) == ("canary", 0.1)
    now = canary.shared(now, APP, 0.25)
    assert user_config(now)["candidate"] == candidate | {"share": 0.25}
    now = canary.promoted(now, APP)
    kept = {"agent_path": str(file), "revision": None, "states": candidate["states"]}
    assert user_config(now) == kept


def test_a_drop_leaves_what_was_before(config, file):
    assert canary.dropped(start(config, file), APP) == config


def test_a_shadow_becomes_a_canary(config, file):
    shadow = start(config, file, mode="shadow", share=1.0)
    canary = user_config(start(shadow, file))["candidate"]
    assert canary == user_config(shadow)["candidate"] | {"mode": "canary", "share": 0.1}


def test_states_are_named_after_the_policy_and_its_revision(config, file, tmp_path):
    names = {user_config(start(config, file, each))["candidate"]["states"] for each in (None, "b")}
    torch.save(random_state_dict(seed=1), tmp_path / "other.th")
    names.add(user_config(start(config, tmp_path / "other.th"))["candidate"]["states"])
    assert len(names) == 3
    same = tmp_path / "same.th"
    same.write_bytes(file.read_bytes())
    assert user_config(start(config, same))["candidate"]["states"] in names


def test_one_trial_at_a_time(config, file, tmp_path):
    torch.save(random_state_dict(seed=1), tmp_path / "other.th")
    with pytest.raises(CommandError, match=r"new.th is tried already; promote or drop it"):
        start(start(config, file), tmp_path / "other.th")


def test_a_promoted_policy_is_tried_beside_itself_under_another_revision_only(config, file):
    now = canary.promoted(start(config, file), APP)
    with pytest.raises(CommandError, match="give it a --revision"):
        start(now, file)
    assert user_config(start(now, file, "again"))["candidate"]


@pytest.mark.parametrize("change", [canary.promoted, canary.dropped])
def test_without_a_candidate_there_is_nothing_to_do(config, change):
    with pytest.raises(CommandError, match=r"There is no candidate; `greenwave canary start FILE`"):
        change(config, APP)
    with pytest.raises(CommandError, match="There is no candidate"):
        canary.shared(config, APP, 0.5)


def test_a_file_that_does_not_fit_is_refused_with_both_shapes(config, tmp_path):
    state_dict = random_state_dict() | {"fc2.bias": torch.zeros(7)}
    torch.save(state_dict, tmp_path / "other.th")
    with pytest.raises(CommandError, match=r"fc2.bias has shape \(7,\), expected \(4,\)"):
        start(config, tmp_path / "other.th")
    with pytest.raises(CommandError, match="no such file"):
        start(config, tmp_path / "missing.th")


def test_a_deploy_refuses_a_candidate_that_does_not_fit(config, file):
    now = start(config, file)
    file.write_bytes(b"nothing")
    assert any("new.th" in fault for fault in faults_of_weights(now))


def test_one_of_several_inference_applications_is_named(config):
    assert canary.inference_of(config, None) == APP
    config["applications"].append(shipped_application("inference", called="other", prefix="/o"))
    assert canary.inference_of(config, "other") == "other"
    for name in (None, "third"):
        with pytest.raises(CommandError, match="there are: inference, other"):
            canary.inference_of(config, name)


def test_a_deployment_without_a_user_config_gets_one(config, file):
    (application,) = [each for each in config["applications"] if each["name"] == APP]
    application["deployments"] = []
    assert user_config(start(config, file))["candidate"]["share"] == 0.1


def test_a_policy_that_can_make_no_step_is_refused(config, file):
    torch.save({name: 1e30 * value for name, value in random_state_dict().items()}, file)
    with pytest.raises(CommandError, match="a step is not finite"):
        start(config, file)


@pytest.mark.parametrize(
    "change", [lambda now: canary.shared(now, APP, 0.5), lambda now: canary.promoted(now, APP)]
)
def test_a_file_that_is_gone_or_another_one_is_neither_shared_nor_promoted(config, file, change):
    now = start(config, file)
    torch.save(random_state_dict(seed=9), file)
    with pytest.raises(CommandError, match="is another policy than the one on trial"):
        change(now)
    file.unlink()
    with pytest.raises(CommandError, match=r"new\.th"):
        change(now)
    assert canary.dropped(now, APP) == config


def test_a_config_that_ends_a_trial_or_a_promotion_is_told_to(config, file):
    tried = start(config, file)
    promoted = canary.promoted(tried, APP)
    assert canary.undone_by(config, config) == []
    assert canary.undone_by(tried, tried) == []
    (ends,) = canary.undone_by(config, tried)
    assert ends.startswith(f"The trial of {file} ends")
    (replaced,) = canary.undone_by(config, promoted)
    assert replaced.startswith(f"{file}, which was promoted, is replaced")
