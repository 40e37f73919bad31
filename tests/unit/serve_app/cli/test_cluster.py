"""``greenwave cluster``: its variables in a shell, and a machine beside a cluster and its Redis."""

import socket
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from load_tests.harness.free_ports import free_port
from load_tests.harness.shipped import ROOT, shipped_config
from serve_app.processes.haproxy import front_environment
from serve_app.rollout.code_version import VARIABLE, stamp
from serve_app.rollout.node_environment import RAY

CONFIG = ROOT / "configs" / "cluster.yaml"


@pytest.fixture
def deployed(ray_api):
    """Serve the shipped config from a cluster; return what is deployed, by application."""
    config = shipped_config()
    config["applications"][1]["args"] = {"plan_file": "configs/harbour.json"}  # in its version
    served = {each["name"]: each for each in stamp(config)["applications"]}
    ray_api.serve(*served.values())
    return served


@pytest.fixture
def node(greenwave, ray_api):
    """Compare this machine with the cluster."""
    return lambda: greenwave("cluster", "node", "--cluster", f"{ray_api.url}/")


def test_a_machine_with_the_same_code_and_files_may_join(deployed, node):
    accepted = node()
    assert accepted.code == 0
    assert "the code and the model files that the cluster serves" in accepted.out


def test_another_version_of_the_code_is_refused_with_both_versions(deployed, node):
    variables = deployed["loans"]["runtime_env"]["env_vars"]
    here, variables[VARIABLE] = variables[VARIABLE], "0123456789abcdef"
    assert node() == (
        1,
        "",
        "Application loans is served with version 0123456789abcdef of the code, and this machine"
        f" has version {here}. Install the same on every node.\n",
    )


@pytest.mark.parametrize("named_by", ["environment", "config"])
def test_a_missing_model_file_is_named(deployed, ray_api, refuse, monkeypatch, tmp_path, named_by):
    missing = str(tmp_path / "agent.th")
    if named_by == "environment":
        monkeypatch.setenv("MAPPO_AGENT_PATH", missing)
    else:
        deployed["inference"]["deployments"][0]["user_config"] = {"agent_path": missing}
    refuse(f"cluster node --cluster {ray_api.url}", f"Application inference: {missing}")


def test_an_application_of_serve_deploy_has_no_version_to_compare(deployed, node):
    del deployed["cards"]["runtime_env"]["env_vars"][VARIABLE]
    accepted = node()
    assert accepted.code == 0
    assert "cards was deployed without a version of its code." in accepted.out


def test_a_cluster_without_our_applications_or_without_an_answer_is_reported(ray_api, node, refuse):
    url = ray_api.url
    assert node() == (1, "", f"The cluster at {url} serves nothing to compare with.\n")
    ray_api.status = 0
    refuse(f"cluster node --cluster {url}", f"A call of {url}/api/serve")


@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("", "Neither STORE_URL nor RAY_REDIS_ADDRESS is set"),
        ("sqlite:////data/greenwave.db", "There is no cluster yet to compare this machine with."),
        ("redis://localhost:99999/0", "STORE_URL does not name a Redis: "),
    ],
)
def test_only_the_url_of_a_redis_is_checked(greenwave, monkeypatch, url, printed):
    monkeypatch.setenv("STORE_URL", url)
    result = greenwave("cluster", "node")
    assert result.code == ("redis" in url)
    assert printed in result.text


@pytest.mark.parametrize(
    ("name", "form"),
    [("STORE_URL", "redis://:secret@127.0.0.1:{}/0"), ("RAY_REDIS_ADDRESS", "127.0.0.1:{}")],
)
def test_an_unreachable_redis_is_named_without_its_password(
    greenwave, refuse, monkeypatch, name, form
):
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        monkeypatch.setenv(name, form.format(port))
        assert greenwave("cluster", "node").code == 0
    reason = f"{name} names 127.0.0.1:{port}, where no Redis answers: "
    assert "secret" not in refuse("cluster node", reason).err


@pytest.fixture
def exported(greenwave):
    """Return what a shell gets from the output of the command."""

    def run(*words: str) -> dict[str, str]:
        printed = greenwave("cluster", "environment", *words)
        assert (printed.code, printed.err) == (0, "")
        script = printed.out + "env -0"
        shell = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True)
        assert shell.stderr == ""
        return dict(each.split("=", 1) for each in shell.stdout.split("\0") if "=" in each)

    return run


def test_a_shell_has_the_variables_of_the_config_and_a_private_folder(exported):
    seen = exported()
    config = yaml.safe_load(CONFIG.read_text())
    wanted = config["controller_options"]["runtime_env"]["env_vars"]
    assert wanted.items() | front_environment().items() <= seen.items()
    folder = Path(seen["RAY_TMPDIR"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    front = ["CONFIG_FILE_LOC", "SOCKET_PATH", "METRICS_SOCKET_PATH", "SERVER_STATE_BASE"]
    for name in (*front, "SERVER_STATE_FILE"):
        assert folder in Path(seen[f"RAY_SERVE_HAPROXY_{name}"]).parents


def test_a_config_without_any_needs_rays_own_alone(exported, tmp_path):
    config = yaml.safe_load(CONFIG.read_text())
    del config["controller_options"]
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    assert exported(str(path)).keys() - {"PWD", "_", "SHLVL", "OLDPWD"} == {*RAY, "RAY_TMPDIR"}
