"""The systemd units: valid, and nothing stops with a supervisor that dies."""

from __future__ import annotations

import configparser
import shutil
import subprocess

import pytest

from serve_app.cli.main import main
from serve_app.cli.units import render
from serve_app.processes.process_tags import Role


def read(role: Role, port_base: int | None = None) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(render(role, port_base, "ann"))
    return parser["Service"]


@pytest.mark.parametrize("role", [Role.RAY_SUPERVISOR, Role.EDGE])
def test_a_supervisor_is_always_restarted_and_nothing_stops_with_it(role):
    unit = read(role)
    assert unit["Restart"] == "always"
    assert unit["KillMode"] == "process"
    assert unit["OOMPolicy"] == "continue"
    assert unit["User"] == "ann"


def test_a_second_instance_has_units_and_ports_of_its_own(tmp_path):
    assert main(["units", "--port-base", "23000", "--to", str(tmp_path)]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"greenwave-23000.service", "greenwave-edge-23000.service"}
    assert read(Role.EDGE, 23000)["ExecStart"].endswith('"edge" "--port-base" "23000"')


def test_a_folder_with_special_signs_stays_what_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("DATA_DIR", str(tmp_path / '100% "$HOME'))
    assert '/100%% \\"$$HOME"' in render(Role.RAY_SUPERVISOR, None, "ann")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_finds_no_fault(tmp_path):
    assert main(["units", "--to", str(tmp_path), "--user", "root"]) == 0
    units = sorted(map(str, tmp_path.iterdir()))
    assert len(units) == 2
    command = ["systemd-analyze", "verify", "--man=no", *units]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    about_ours = [line for line in checked.stderr.splitlines() if "greenwave" in line]
    assert about_ours == []
    assert checked.returncode == 0
