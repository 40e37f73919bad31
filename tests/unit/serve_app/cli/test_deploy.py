"""What cannot be served is refused in a sentence before anything is touched."""

from __future__ import annotations

import pytest
import yaml

from load_tests.harness.shipped import shipped_application, shipped_config
from serve_app.cli import deploy as deploy_command
from serve_app.cli.main import main
from serve_app.processes.installation import instance_of
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.rollout import Rollout


@pytest.fixture
def deploy(tmp_path, monkeypatch, capsys):
    """Deploy the inference with some keys changed; return what is said."""
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))

    def run(**changes: object) -> str:
        applications = [shipped_application("inference") | changes]
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(shipped_config() | {"applications": applications}))
        assert main(["deploy", "--port-base", "31000", str(path)]) == 1
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return str(said)

    return run


def weights(path: object) -> dict[str, object]:
    return {"deployments": [{"name": "Inference", "user_config": {"agent_path": str(path)}}]}


def test_code_that_does_not_import(deploy):
    assert "No module named 'elsewhere'" in deploy(import_path="elsewhere:build")


def test_a_wrong_value(deploy):
    assert "applications[inference].args.lease_s: " in deploy(args={"lease_s": "soon"})


def test_weights_that_are_not_there(deploy):
    assert "Application inference: /nowhere/agent.th" in deploy(**weights("/nowhere/agent.th"))


def test_weights_that_an_applications_environment_names_and_are_not_there(deploy):
    environment = {"env_vars": {"MAPPO_AGENT_PATH": "/nowhere/agent.th"}}
    assert "Application inference: /nowhere/agent.th" in deploy(runtime_env=environment)


def test_weights_that_do_not_fit(deploy, tmp_path):
    path = tmp_path / "agent.th"
    path.write_bytes(b"no weights")
    assert f"Application inference: {path}" in deploy(**weights(path))


def test_a_config_in_order_meets_a_system_that_does_not_run(deploy):
    assert "Greenwave is not running" in deploy()


def test_a_cluster_that_nobody_here_keeps_is_named_by_its_dashboard(tmp_path, monkeypatch, capsys):
    def deploy(rollout: Rollout, config: dict[str, object]) -> bool:
        rollouts.append(rollout)
        return True

    rollouts: list[Rollout] = []
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setattr(deploy_command, "read", lambda options: {"applications": []})
    monkeypatch.setattr(Rollout, "deploy", deploy)
    monkeypatch.setattr(Rollout, "roll_back", lambda rollout: rollouts.append(rollout))
    for command in ("deploy", "rollback"):
        assert main([command, "--cluster", "http://10.1.2.3:8265/"]) == 0
    said = capsys.readouterr().out
    undo = f"DATA_DIR={tmp_path} greenwave rollback --cluster http://10.1.2.3:8265/"
    assert f"Undo it with `{undo}`" in said
    assert len(rollouts) == 2
    for rollout in rollouts:
        assert rollout.dashboard == RayDashboard("http://10.1.2.3:8265")
        assert rollout.front is None
        rollout.releases.set_pending({})
        assert rollout.releases.pending.is_relative_to(tmp_path / "clusters" / "10.1.2.3-8265")


@pytest.mark.parametrize(
    ("is_new", "said"),
    [
        (True, "Deployed. Undo it with `DATA_DIR={} make rollback`."),
        (False, "Nothing has changed: config and code are those of the current release."),
    ],
)
def test_only_what_is_new_can_be_undone(is_new, said, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setattr(deploy_command, "read", lambda options: {"applications": []})
    monkeypatch.setattr(deploy_command, "running", lambda options: instance_of(options.port_base))
    monkeypatch.setattr(Rollout, "deploy", lambda self, config: is_new)
    monkeypatch.setattr(deploy_command, "print_problems", lambda instance, config: None)
    assert main(["deploy"]) == 0
    assert capsys.readouterr().out.strip() == said.format(tmp_path)
