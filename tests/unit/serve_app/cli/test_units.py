"""systemd's units: valid, and a keeper that dies takes nothing along."""

from __future__ import annotations

import configparser
import shutil
import subprocess

import pytest

from serve_app.cli.main import main
from serve_app.cli.units import render
from serve_app.processes.process_tags import Part


def read(part: Part, port_base: int | None = None) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(render(part, port_base, "ann"))
    return parser["Service"]


@pytest.mark.parametrize("part", [Part.NODE, Part.EDGE])
def test_a_keeper_is_always_started_again_and_takes_nothing_along(part):
    unit = read(part)
    assert unit["Restart"] == "always"
    assert unit["KillMode"] == "process"
    assert unit["OOMPolicy"] == "continue"
    assert unit["User"] == "ann"


def test_a_second_instance_has_units_and_ports_of_its_own(tmp_path):
    assert main(["units", "--port-base", "23000", "--to", str(tmp_path)]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"greenwave-23000.service", "greenwave-edge-23000.service"}
    assert read(Part.EDGE, 23000)["ExecStart"].endswith('"edge" "--port-base" "23000"')


def test_a_folder_with_special_signs_stays_what_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("DATA_DIR", str(tmp_path / '100% "$HOME'))
    assert '/100%% \\"$$HOME"' in render(Part.NODE, None, "ann")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_finds_no_fault(tmp_path):
    assert main(["units", "--to", str(tmp_path), "--user", "root"]) == 0
    units = sorted(map(str, tmp_path.iterdir()))
    assert len(units) == 2
    command = ["systemd-analyze", "verify", "--man=no", *units]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    about_ours = [line for line in said.stderr.splitlines() if "greenwave" in line]
    assert about_ours == []
    assert said.returncode == 0
