"""What every command has in common: errors end in one sentence."""

import errno
import json
import subprocess
import sys

import pytest
from pydantic import BaseModel

from serve_app.cli import deploy
from serve_app.cli.main import COMMANDS, RENAMED, main
from serve_app.errors import ROOT
from serve_app.processes.supervision.supervisor import Supervisor
from serve_app.rollout import capacity


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("JWT_EXPIRATION_MINUTES", "0"),
        ("LOANS_UPDATE_VALIDATION_STATUS", "abc"),
        ("ENVIRONMENT", "staging"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"),
    ],
)
def test_a_variable_that_is_not_valid_is_named_in_one_sentence(
    variable, value, monkeypatch, capsys, tmp_path
):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv(variable, value)
    assert main(["status"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"{variable} is not valid: ")
    assert len(printed.splitlines()) == 1


class Network(BaseModel):
    phases: int


READ_ONLY = OSError(errno.EROFS, "Read-only file system", "/data/x")
ADVICE = "/data/x: Read-only file system. Use a folder that you can write to; DATA_DIR sets the"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt("Interrupted. The release before it serves on."), 130, "Interrupted."),
        (KeyboardInterrupt(), 130, ""),
        (READ_ONLY, 1, ADVICE),
        (None, 1, "phases of Network is not valid: Input should be"),
    ],
)
def test_a_command_that_ends_early_says_why(error, code, message, monkeypatch, capsys):
    def read(options: object) -> None:
        if error is None:
            Network(phases="two")
        raise error

    monkeypatch.setenv("DATA_DIR", "/data")
    monkeypatch.setattr(deploy, "read", read)
    assert main(["deploy"]) == code
    printed = capsys.readouterr().err
    assert (printed.startswith(message), bool(printed)) == (True, bool(message))


# Imports two services' files as if they ended with `def (`.
BROKEN = """
import importlib.machinery, sys
from serve_app.cli.main import main

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        if name in ("deployments.density.service", "deployments.gateway.users"):
            spec.loader = Loader(name, spec.origin)
        return spec

class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name):
        return compile("def (", self.path, "exec")

sys.meta_path.insert(0, Finder)
sys.exit(main(sys.argv[1:]))
"""


def with_a_broken_service(*words: str, folder: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BROKEN, *words],
        env={"DATA_DIR": str(folder), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["down", "--port-base", "31000"], "Nothing was running"),
        (["status", "--port-base", "31000"], "Greenwave is not running"),
        (["up", "--help"], "--no-edge"),
    ],
)
def test_a_service_that_does_not_import_never_prevents_a_stop(words, printed, tmp_path):
    ran = with_a_broken_service(*words, folder=tmp_path)
    assert printed in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("command", ["up", "deploy", "check"])
def test_a_file_that_does_not_import_is_named_and_no_traceback_shown(command, tmp_path):
    ran = with_a_broken_service(command, folder=tmp_path)
    assert ran.returncode == 1
    assert "deployments/density/service.py:1" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("words", "command", "note"),
    [
        *((name, name, "") for name in COMMANDS),
        *(
            (old, new, f"`greenwave {old}` is now `greenwave {new}`.\n")
            for old, new in RENAMED.items()
        ),
    ],
)
def test_every_command_has_help_also_under_an_old_name(words, command, note, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([*words.split(), "--help"])
    assert exit_.value.code == 0
    printed = capsys.readouterr()
    assert f"usage: greenwave {command} " in printed.out
    assert printed.err == note


def test_up_starts_nothing_where_the_config_finds_no_place(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setattr(capacity, "local_node", lambda: capacity.Room(0.5, 8000.0))
    assert main(["up", "--port-base", "31000"]) == 1
    printed = capsys.readouterr().err
    assert "and the cluster has 0.5 (1 node)" in printed
    assert "Nothing has been started." in printed


def test_without_haproxy_nothing_is_started_unless_without_an_edge(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RAY_SERVE_HAPROXY_BINARY_PATH", "/nowhere/haproxy")
    monkeypatch.setattr(Supervisor, "start", lambda self: None)
    for words, why in (([], "there is no HAProxy here"), (["--no-edge"], "supervisor and its")):
        assert main(["up", "--port-base", "31000", *words]) == 1
        assert why in capsys.readouterr().err
    (pending,) = tmp_path.rglob("releases/*.json")
    assert json.loads(pending.read_text())["http_options"]["port"] == 31000


def test_check_refuses_a_missing_config_and_one_with_a_missing_file_unless_it_is_elsewhere(
    capsys, tmp_path, refuse
):
    config = tmp_path / "config.yaml"
    config.write_text(
        "applications: [{name: inference, route_prefix: /, import_path: serve_app.inference:build,"
        f" args: {{agent_path: {tmp_path}/gone.th}}}}]"
    )
    refuse("check none.yaml", "none.yaml: No such file or directory Not every config is valid.")
    refuse(f"check {config}", "If another machine has the files, add --elsewhere.")
    assert main(["check", "--elsewhere", str(config)]) == 0
    printed = capsys.readouterr()
    assert "config.yaml: valid, needs" in printed.out
    assert printed.err.strip() == (
        f"It cannot be served here: Application inference: {tmp_path}/gone.th: no such file."
    )
