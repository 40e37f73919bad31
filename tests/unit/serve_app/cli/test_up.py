"""``greenwave up`` refuses a config whose policy cannot be served, unless asked to do without."""

from __future__ import annotations

import argparse

import pytest
import yaml

from load_tests.harness.shipped import shipped_application, shipped_config
from serve_app.cli import up as up_command
from serve_app.errors import CommandError


@pytest.fixture
def config(tmp_path):
    """Write a config that can be read, with a policy that cannot."""
    agent_path = str(tmp_path / "agent.th")
    deployments = [{"name": "Inference", "user_config": {"agent_path": agent_path}}]
    inference = shipped_application("inference") | {"deployments": deployments}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(shipped_config() | {"applications": [inference]}))
    return path


@pytest.fixture
def started(monkeypatch):
    """Collect the configs that would be started."""
    received = []

    def start(options, config):
        received.append(config)
        raise CommandError("Started.")

    monkeypatch.setattr(up_command, "_start", start)
    return received


def test_a_missing_policy_is_refused(greenwave, config, started):
    refused = greenwave("up", "--port-base", "31000", str(config))
    assert refused.code == 1
    assert f"Application inference: {config.with_name('agent.th')}" in refused.err
    assert started == []


@pytest.mark.parametrize("content", [None, b"no weights"], ids=["missing", "broken"])
def test_without_a_policy_everything_starts_if_asked_to(greenwave, config, started, content):
    if content:
        config.with_name("agent.th").write_bytes(content)
    done = greenwave("up", "--without-policy", "--port-base", "31000", str(config))
    assert done.err == "Started.\n"
    assert [each["name"] for each in started[0]["applications"]] == ["inference"]


def test_other_files_must_be_good_even_without_a_policy(greenwave, config, started, monkeypatch):
    whole = yaml.safe_load(config.read_text())
    density = shipped_application("density")
    density["deployments"][0]["user_config"] = {"model_path": "/nowhere/density.npz"}
    config.write_text(yaml.safe_dump(whole | {"applications": [*whole["applications"], density]}))
    refused = greenwave("up", "--without-policy", "--port-base", "31000", str(config))
    assert "Application density: /nowhere/density.npz" in refused.err
    assert "agent.th" not in refused.err
    assert started == []


def test_up_prints_how_to_add_a_policy(data_dir, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = argparse.Namespace(port_base=31000, config=tmp_path / "config.yaml")
    up_command.print_no_policy(options)
    printed = capsys.readouterr().err
    assert "/health is no_model, and predictions are 503." in printed
    assert "set a new `revision` in the user_config of Inference in config.yaml" in printed
    assert f'`DATA_DIR={data_dir} make deploy ARGS="--port-base 31000' in printed
