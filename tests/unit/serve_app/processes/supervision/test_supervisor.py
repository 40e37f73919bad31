"""supervisord: as its configuration promises, on real processes but without Ray."""

from __future__ import annotations

import configparser
import os
import shlex
from pathlib import Path

from serve_app.processes.instance import Instance
from serve_app.processes.process_tags import PART
from serve_app.processes.supervision.supervisor import Supervisor


def read(supervisor: Supervisor) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(inline_comment_prefixes=(";", "#"))
    parser.read_string(supervisor.render())
    return parser


def test_nothing_listens(tmp_path):
    config = read(Supervisor(Instance(tmp_path)))
    assert config.sections() == ["supervisord", "program:node", "program:edge"]


def test_a_keeper_is_started_again_for_ever_and_knows_its_part(tmp_path):
    config = read(Supervisor(Instance(tmp_path), port_base=23000))
    for part in ("node", "edge"):
        program = config[f"program:{part}"]
        assert program["autorestart"] == "true"
        assert int(program["startretries"]) > 10**6
        assert program["environment"] == f'{PART}="{part}"'
        assert shlex.split(program["command"])[-3:] == [part, "--port-base", "23000"]


def test_every_log_is_bounded(tmp_path):
    config = read(Supervisor(Instance(tmp_path)))
    for section in config.sections():
        kind = "logfile" if section == "supervisord" else "stdout_logfile"
        assert int(config[section][f"{kind}_maxbytes"]) <= 1 << 20
        assert int(config[section][f"{kind}_backups"]) <= 1


def test_a_folder_with_a_percent_sign_is_no_pattern(tmp_path):
    folder = tmp_path / "100%"
    assert read(Supervisor(Instance(folder)))["supervisord"]["directory"] == os.fspath(
        Path(folder).resolve()
    )
