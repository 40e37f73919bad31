"""The wheel, installed into a new environment without the checkout, serves from any folder."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from load_tests.harness.shipped import ROOT
from load_tests.harness.system import free_port_base
from models.networks.shipped import SHIPPED
from serve_app.errors import PACKAGES
from serve_app.processes.private_folder import user_folder

pytestmark = pytest.mark.timeout(600)

START_S = 300.0
LOCK = ROOT / "requirements.lock"
CLIENT = ("aiohttp", "pydantic")  # what docs/client.md says that the client needs


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True, timeout=120)
    return next(folder.glob("*.whl"))


def new_environment(folder: Path, wheel: Path, *requirements: str) -> Path:
    """Install the wheel after what it needs, and return the environment's folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    programs = folder / "bin"
    install = [str(programs / "pip"), "--disable-pip-version-check", "install", "--quiet"]
    for packages in (requirements, ("--no-deps", str(wheel))):
        done = subprocess.run([*install, *packages], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return programs


class Installation:
    """The wheel in an environment, called from a folder with packages of our names."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.port_base = free_port_base()
        self.folder = folder / "town"
        for package in PACKAGES:
            (self.folder / package).mkdir(parents=True)
            (self.folder / package / "__init__.py").write_text("raise RuntimeError(__file__)\n")
        self._programs = programs
        self._env = {
            "HOME": str(folder),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder),
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._programs / "greenwave"), *words],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=START_S,
        )

    def run_instance(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(command, "--port-base", str(self.port_base), *words)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installed")
    lock = ("--require-hashes", "--requirement", str(LOCK))
    installation = Installation(new_environment(folder / "environment", wheel, *lock), folder)
    yield installation
    installation.run_instance("down")


def test_only_the_client_is_a_package_that_others_can_see(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if ".dist-info" not in top} == {"greenwave", "greenwave.pth"}


def test_it_starts_in_a_folder_with_packages_of_our_names_and_predicts(installed):
    assert installed.run("init").returncode == 0
    up = installed.run_instance("up")
    assert up.returncode == 0, up.stdout + up.stderr
    assert "greenwave down" in up.stdout
    assert "make " not in up.stdout
    body = {"junction_id": SHIPPED.ids[0], "obs_data": [1, 0.5]}
    url = f"http://127.0.0.1:{installed.port_base}/predict_action"
    answer = httpx.post(url, json=body, timeout=10)
    assert (answer.status_code, answer.json()["junction_id"]) == (200, SHIPPED.ids[0])
    assert "inference" in installed.run_instance("status").stdout
    assert installed.run_instance("down").stdout == "Stopped.\n"
    assert not (user_folder() / str(installed.port_base)).exists()


def test_a_command_of_a_missing_extra_says_how_to_install_it(installed):
    asked = installed.run(
        "lab", "demand", "town.net.xml", "--entries", "e.csv", "--output", "r.xml"
    )
    assert asked.returncode == 1
    expected = "This command needs SUMO. Install it with `pip install 'greenwave[lab]'`.\n"
    assert asked.stderr == expected


def test_the_client_needs_two_libraries_and_no_ray(wheel, tmp_path):
    pins = tmp_path / "pins"
    pins.write_text("\n".join(re.findall(r"^\S+==\S+", LOCK.read_text(), re.MULTILINE)))
    programs = new_environment(tmp_path / "client", wheel, "--constraint", str(pins), *CLIENT)
    program = "from greenwave.client import AsyncClient, Client; Client('http://localhost:1')"
    subprocess.run([str(programs / "python"), "-c", program], check=True, timeout=60)
    asked = subprocess.run(
        [str(programs / "greenwave"), "up"], capture_output=True, text=True, timeout=60
    )
    assert asked.returncode == 1
    assert asked.stderr == "This command needs the services. Install them: pip install greenwave\n"
