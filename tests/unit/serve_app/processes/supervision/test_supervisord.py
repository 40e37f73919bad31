"""supervisord: as its configuration promises, on real processes but without Ray."""

from __future__ import annotations

import configparser
import os
import shlex
from pathlib import Path

from serve_app.processes.instance import Instance
from serve_app.processes.process_tags import ROLE_TAG
from serve_app.processes.supervision.supervisord import Supervisord


def read(supervisor: Supervisord) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(inline_comment_prefixes=(";", "#"))
    parser.read_string(supervisor.render())
    return parser


def test_there_is_no_socket(tmp_path):
    config = read(Supervisord(Instance(tmp_path)))
    assert config.sections() == ["supervisord", "program:node", "program:edge"]


def test_a_supervisor_is_restarted_indefinitely_and_knows_its_role(tmp_path):
    config = read(Supervisord(Instance(tmp_path), port_base=23000))
    for role in ("node", "edge"):
        program = config[f"program:{role}"]
        assert program["autorestart"] == "true"
        assert int(program["startretries"]) > 10**6
        assert program["environment"] == f'{ROLE_TAG}="{role}"'
        assert shlex.split(program["command"])[-3:] == [role, "--port-base", "23000"]


def test_every_log_is_bounded(tmp_path):
    config = read(Supervisord(Instance(tmp_path)))
    for section in config.sections():
        kind = "logfile" if section == "supervisord" else "stdout_logfile"
        assert int(config[section][f"{kind}_maxbytes"]) <= 1 << 20
        assert int(config[section][f"{kind}_backups"]) <= 1


def test_a_percent_sign_in_a_folder_is_escaped(tmp_path):
    folder = tmp_path / "100%"
    assert read(Supervisord(Instance(folder)))["supervisord"]["directory"] == os.fspath(
        Path(folder).resolve()
    )
