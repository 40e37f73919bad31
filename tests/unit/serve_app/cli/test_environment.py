"""A shell that reads what is printed has the variables of the config, whatever is in them."""

import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from serve_app.processes.haproxy import front_environment
from serve_app.rollout.node_environment import RAY

CONFIG = Path(__file__).resolve().parents[4] / "configs" / "cluster.yaml"


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
