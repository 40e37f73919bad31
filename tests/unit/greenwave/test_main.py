"""The command ``greenwave`` finds our packages, whatever a user's folders are called."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from serve_app.errors import PACKAGES


def greenwave(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Call the command in a folder that is on the path, too."""
    command = [sys.executable, "-P", "-m", "greenwave", *words]
    env = os.environ | {"PYTHONPATH": str(folder or "")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@pytest.fixture
def decoys(tmp_path):
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('not this one')\n")
    return tmp_path


def test_packages_of_the_same_names_in_the_folder_and_on_the_path_do_not_count(decoys):
    ran = greenwave("check", folder=decoys)
    assert ran.stderr == ""
    assert "valid" in ran.stdout


def test_it_prints_its_version():
    assert greenwave("--version").stdout == f"greenwave {metadata.version('greenwave')}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_completes_commands_and_options(shell):
    script = greenwave("completion", shell).stdout
    assert all(word in script for word in ("rollback", "port-base", "evaluate"))


def test_ctrl_c_while_it_imports_ends_with_130(tmp_path):
    (tmp_path / "serve_app").mkdir()
    (tmp_path / "serve_app" / "__init__.py").write_text("raise KeyboardInterrupt")
    program = f"from greenwave import __main__ as m; m.app_folder = lambda: {str(tmp_path)!r}"
    call = [sys.executable, "-c", f"{program}; raise SystemExit(m.main())"]
    ran = subprocess.run(call, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (130, "")
