"""A shell that reads what is printed has the variables of the config, whatever is in them."""

import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from serve_app.cli.main import main
from serve_app.processes.haproxy import front_environment
from serve_app.rollout.node_environment import RAY

CONFIG = Path(__file__).resolve().parents[4] / "configs" / "cluster.yaml"


def test_a_shell_takes_the_variables_over_as_they_are(capsys):
    assert main(["cluster", "environment"]) == 0
    script = capsys.readouterr().out + "env -0"
    shell = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True)
    seen = dict(each.split("=", 1) for each in shell.stdout.split("\0") if "=" in each)
    config = yaml.safe_load(CONFIG.read_text())
    wanted = config["controller_options"]["runtime_env"]["env_vars"]
    assert wanted.items() <= seen.items()
    assert shell.stderr == ""


def test_ray_and_serves_front_write_below_a_private_folder(capsys):
    assert main(["cluster", "environment"]) == 0
    exports = [line.removeprefix("export ") for line in lines(capsys) if "=" in line]
    seen = dict(each.split("=", 1) for each in exports)
    folder = Path(seen["RAY_TMPDIR"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    front = ["CONFIG_FILE_LOC", "SOCKET_PATH", "METRICS_SOCKET_PATH", "SERVER_STATE_BASE"]
    for name in (*front, "SERVER_STATE_FILE"):
        assert folder in Path(seen[f"RAY_SERVE_HAPROXY_{name}"]).parents


def test_a_config_without_any_needs_rays_own_alone(capsys, tmp_path):
    config = yaml.safe_load(CONFIG.read_text())
    del config["controller_options"]
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    assert main(["cluster", "environment", str(path)]) == 0
    names = [line.removeprefix("export ").partition("=")[0] for line in lines(capsys)]
    assert names == [*RAY, "RAY_TMPDIR"]


def test_serves_front_is_started_as_by_up_where_the_config_has_one(capsys):
    assert main(["cluster", "environment"]) == 0
    assert {f"export {name}={value}" for name, value in front_environment().items()} <= {
        *lines(capsys)
    }


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()
