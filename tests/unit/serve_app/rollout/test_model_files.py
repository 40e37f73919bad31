"""What must not start: diagnoses without data, and policies that were not trained for the layer."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from load_tests.harness.shipped import shipped_config
from models.policy.form import SHIPPED_SAFE_POLICY
from models.policy.training_record import TrainingRecord, write_record
from serve_app.rollout.model_files import find_file_faults
from tests.reference import random_state_dict

Config = dict[str, Any]
OTHER = {"inference_app": "elsewhere"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.th"
    torch.save(random_state_dict(), path)
    return path


def config_of(file: Path | None, **args: Any) -> Config:
    config = shipped_config()
    named = {each["name"]: each for each in config["applications"]}
    named["gateway"]["args"] = args
    named["inference"]["args"] = {} if file is None else {"agent_path": str(file)}
    return config


def test_safety_with_a_policy_that_was_not_trained_for_it_is_refused(file):
    (fault,) = find_file_faults(config_of(file, safety=True))
    assert f"{file} was not trained behind the safety layer" in fault
    assert "best.th of python -m lab.train --safety" in fault
    assert "safety_policy: any" in fault
    (fault,) = find_file_faults(config_of(None, safety=True))
    assert "weights/agent.th was not trained" in fault, "the default"
    assert str(SHIPPED_SAFE_POLICY) in fault


def test_the_shipped_policy_for_the_layer_and_one_with_a_record_are_deployed(file):
    write_record(file, TrainingRecord(True))
    for trained in (Path("models/weights/agent-safe.th"), file):
        assert list(find_file_faults(config_of(trained, safety=True))) == []


@pytest.mark.parametrize(
    "args", [{}, {"safety": True, "safety_policy": "any"}, {"safety": True} | OTHER]
)
def test_any_policy_is_deployed_without_the_layer_or_by_an_option(file, args):
    assert list(find_file_faults(config_of(file, **args))) == []
    refused = config_of(file, safety=True)
    assert list(find_file_faults(refused, policies=False)) == []
    elsewhere = {"RL_INFERENCE_SERVICE_URL": "http://127.0.0.1:8000/predict_action"}
    (gateway,) = [each for each in refused["applications"] if each["name"] == "gateway"]
    gateway["runtime_env"] = {"env_vars": elsewhere}
    assert list(find_file_faults(refused)) == [], "the files of another system are not known"


def test_only_the_policy_in_service_counts(file, tmp_path):
    write_record(file, TrainingRecord(True))
    config = config_of(tmp_path / "before.th", safety=True)
    torch.save(random_state_dict(), tmp_path / "before.th")
    (inference,) = [each for each in config["applications"] if each["name"] == "inference"]
    inference["deployments"][0]["user_config"] = {"agent_path": str(file)}
    assert list(find_file_faults(config)) == []


def test_a_diagnosis_that_the_network_file_does_not_allow_is_refused_with_the_junction(tmp_path):
    path = tmp_path / "bare.json"
    lanes = [{"id": "lane", "capacity": 9}]
    junction = {"id": "a", "agent_index": 0, "phases": [{}, {}], "lanes": lanes}
    path.write_text(json.dumps({"name": "bare", "junctions": [junction]}))

    def faults(diagnose: bool, **network: str) -> list[str]:
        application = {"name": "inference", "import_path": "serve_app.inference:build"}
        args = {"diagnose_detectors": diagnose, **network}
        config = {"applications": [application | {"args": args}]}
        return list(find_file_faults(config, policies=False))

    assert faults(True) == faults(False, network=str(path)) == []
    assert faults(True, network=str(path)) == [
        "Application inference: junction a has no states of its phases, or no links, without which"
        " its detectors cannot be diagnosed."
    ]
