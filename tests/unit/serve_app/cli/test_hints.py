"""What a command prints to be copied finds the same instance from another shell."""

import argparse
import shlex

from serve_app.cli import up
from serve_app.cli.hints import greenwave_command
from serve_app.cli.main import main
from serve_app.errors import ROOT
from serve_app.settings import usual_data_dir


def test_the_usual_folder_needs_no_word(monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(usual_data_dir()))
    assert greenwave_command("down", None) == ".venv/bin/greenwave down"
    assert greenwave_command("down", 23000) == ".venv/bin/greenwave down --port-base 23000"


def test_another_folder_is_named_whole_and_quoted_for_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", "it's here")
    command = shlex.split(greenwave_command("down", 23000))
    program = [".venv/bin/greenwave", "down", "--port-base", "23000"]
    assert command == [f"DATA_DIR={tmp_path}/it's here", *program]


def test_up_prints_commands_for_this_instance(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    for name in ("STORE_URL", "JWT_AUTH_USERNAME", "JWT_AUTH_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    up._print_first_user(argparse.Namespace(port_base=31000))
    printed = capsys.readouterr().out
    change = f"DATA_DIR={tmp_path} .venv/bin/greenwave users passwd operator --port-base 31000"
    assert change in printed
    assert main(["audit", "--port-base", "31000"]) == 0
    assert "user added" in capsys.readouterr().out
    assert f"`DATA_DIR={tmp_path} .venv/bin/greenwave demo --port-base 31000`" in printed
    up.print_no_policy(argparse.Namespace(port_base=31000, config=ROOT / "serve_config.yaml"))
    advice = " ".join(capsys.readouterr().err.split())
    assert "/health is no_model, and predictions are 503." in advice
    assert "`revision` in the user_config of Inference in serve_config.yaml, and run" in advice
    assert f"`DATA_DIR={tmp_path} .venv/bin/greenwave deploy --port-base 31000`" in advice
