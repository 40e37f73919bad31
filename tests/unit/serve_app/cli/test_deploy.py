"""``greenwave deploy`` refuses what cannot be served, and prints how to undo the rest."""

import json

import pytest
import yaml

from load_tests.harness.shipped import shipped_application, shipped_config
from serve_app.errors import ROOT
from serve_app.rollout.config import read_config

MISSING = "Application inference: /nowhere/agent.th"


def weights(path: object, **canary: object) -> dict[str, object]:
    user_config = {"canary": {"agent_path": path, **canary}} if canary else {"agent_path": path}
    return {"deployments": [{"name": "Inference", "user_config": user_config}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"import_path": "elsewhere:build"}, "No module named 'elsewhere'"),
        (weights("/nowhere/agent.th"), MISSING),
        ({"runtime_env": {"env_vars": {"MAPPO_AGENT_PATH": "/nowhere/agent.th"}}}, MISSING),
        (weights("/nowhere/agent.th", mode="canary", share=0.1, states="x"), MISSING),
        ({}, "Greenwave is not running"),
    ],
    ids=["import", "policy", "policy of the environment", "canary", "no system"],
)
def test_a_deploy_that_cannot_succeed_is_refused_in_a_sentence(tmp_path, changes, message, refuse):
    applications = [shipped_application("inference") | changes]
    config = yaml.safe_dump(shipped_config() | {"applications": applications})
    (tmp_path / "config.yaml").write_text(config)
    refuse(f"deploy --port-base 31000 {tmp_path / 'config.yaml'}", message)


def test_a_check_reports_every_config_to_programs_too(greenwave, tmp_path):
    (tmp_path / "config.yaml").write_text("applications: []\nport: 1")
    checked = greenwave("check", str(tmp_path / "config.yaml"), "serve_config.yaml", "--json")
    invalid, valid = json.loads(checked.out)
    assert (checked.code, checked.err) == (1, "Not every config is valid.\n")
    assert any("port: unknown key" in fault for fault in invalid["faults"])
    assert (valid["faults"], valid["needs"][:5]) == ([], "needs")


def test_a_missing_file_of_a_shipped_config_is_named_where_its_comments_put_it():
    application = read_config(ROOT / "configs" / "two-cities.yaml")["applications"][2]
    assert ROOT / application["args"]["agent_path"] == ROOT / ".data" / "harbour.untrained.th"


def test_a_cluster_without_supervision_is_named_by_its_dashboard(
    greenwave, data_dir, ray_api, tmp_path
):
    """Every command goes to it, and its releases are kept on this machine."""
    cluster = ("--cluster", f"{ray_api.url}/")
    applications = [shipped_application(name) for name in ("inference", "flow")]
    shared = {"num_cpus": 0.1}  # an alias in YAML
    for each in applications:
        each["deployments"][0]["ray_actor_options"] = shared
    config = shipped_config() | {"applications": applications}
    for prefix in ("/", "/second"):
        config["applications"][0]["route_prefix"] = prefix
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        planned = greenwave("deploy", *cluster, "--dry-run", str(tmp_path / "config.yaml"))
        deployed = greenwave("deploy", *cluster, str(tmp_path / "config.yaml"))
        assert deployed.code == 0, deployed.text
    changes = [line for line in planned.out.splitlines()[2:] if line[0] in "-+"]
    assert changes == ["-  route_prefix: /", "+  route_prefix: /second"]
    undo = f"DATA_DIR={data_dir} .venv/bin/greenwave rollback --cluster {ray_api.url}/"
    assert f"Undo it with `{undo}`" in deployed.out
    again = greenwave("deploy", *cluster, "--dry-run", str(tmp_path / "config.yaml"))
    assert again.out == "Nothing would change.\n"
    again = greenwave("deploy", *cluster, str(tmp_path / "config.yaml"))
    assert again.out.splitlines()[-1].startswith("Nothing has changed: config and code are those")
    status = json.loads(greenwave("status", *cluster, "--json").out)
    assert [each["status"] for each in status["applications"]] == ["RUNNING", "RUNNING"]
    lines = greenwave("status", *cluster).out.splitlines()
    assert [line.split() for line in lines] == [["inference", "RUNNING"], ["flow", "RUNNING"]]
    assert greenwave("rollback", *cluster).code == 0
    served = [each["applications"][0]["route_prefix"] for each in ray_api.sent]
    assert served == ["/", "/second", "/second", "/"]
    assert {each["http_options"]["port"] for each in ray_api.sent} == {
        config["http_options"]["port"]
    }
    ray_api.status = 500
    assert f"A call of {ray_api.url}/api/serve" in greenwave("status", *cluster).err
