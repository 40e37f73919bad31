"""``greenwave up``: what it refuses, what it prints to be copied, and how it stays."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import psutil
import pytest
import yaml

from load_tests.harness.shipped import shipped_application, shipped_config
from serve_app.cli import up
from serve_app.cli.hints import greenwave_command
from serve_app.cli.main import main
from serve_app.cli.up import exit_on_sigterm, stay
from serve_app.errors import ROOT, CommandError, InstanceError
from serve_app.processes.instance import Instance
from serve_app.processes.process_tags import CODE_TAG, ROLE_TAG
from serve_app.processes.supervision.supervisor import Supervisor
from serve_app.settings import usual_data_dir

UP = ("up", "--without-policy", "--port-base", "31000")


@pytest.fixture
def config(tmp_path):
    """Write a config that can be read, with a policy that cannot."""
    agent_path = str(tmp_path / "agent.th")
    deployments = [{"name": "Inference", "user_config": {"agent_path": agent_path}}]
    inference = shipped_application("inference") | {"deployments": deployments}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(shipped_config() | {"applications": [inference]}))
    return path


@pytest.fixture
def started(monkeypatch):
    """Collect the configs that would be started."""
    received = []

    def start(options, config):
        received.append(config)
        raise CommandError("Started.")

    monkeypatch.setattr(up, "_start", start)
    return received


@pytest.mark.parametrize("content", [None, b"no weights"], ids=["missing", "broken"])
def test_without_a_policy_everything_starts_if_asked_to(
    greenwave, refuse, config, started, content
):
    if content:
        config.with_name("agent.th").write_bytes(content)
    broken = f"Application inference: {config.with_name('agent.th')}"
    refuse(f"up --port-base 31000 {config}", broken)
    assert started == []
    done = greenwave(*UP, str(config))
    assert done.err == "Started.\n"
    assert [each["name"] for each in started[0]["applications"]] == ["inference"]


def test_other_files_must_be_good_even_without_a_policy(greenwave, config, started, monkeypatch):
    whole = yaml.safe_load(config.read_text())
    density = shipped_application("density")
    density["deployments"][0]["user_config"] = {"model_path": "/nowhere/density.npz"}
    config.write_text(yaml.safe_dump(whole | {"applications": [*whole["applications"], density]}))
    refused = greenwave(*UP, str(config))
    assert "Application density: /nowhere/density.npz" in refused.err
    assert "agent.th" not in refused.err
    assert started == []


@pytest.fixture
def run_from(data_dir, start_process):
    """Start a process of a supervisor whose code is in a folder."""
    instance = data_dir / "ports-31000"
    return lambda folder: start_process(instance, **{ROLE_TAG: "node", CODE_TAG: f"{folder} 0.9.0"})


def test_a_system_from_another_folder_is_named_and_stays_unless_it_is_to_be_replaced(
    greenwave, config, started, run_from, data_dir
):
    running = run_from("/srv/a town")
    refused = greenwave(*UP, str(config))
    assert refused.code == 1
    what = "greenwave 0.9.0 from /srv/a town has been running at http://127.0.0.1:31000 since 20"
    assert what in refused.err
    assert f"To stop it and start {ROOT}, add --replace" in refused.err
    assert len(refused.err.splitlines()) == 1
    assert (started, running.poll(), data_dir.exists()) == ([], None, False)
    done = greenwave(*UP, "--replace", str(config))
    assert "Stopping what runs from /srv/a town ..." in done.out
    assert running.wait(10)
    assert len(started) == 1


def test_a_system_from_the_same_folder_goes_on(greenwave, config, started, run_from):
    running = run_from(ROOT)
    greenwave(*UP, "--replace", str(config))
    assert (running.poll(), len(started)) == (None, 1)


def test_a_second_interrupt_does_not_end_the_stop_of_what_was_started(
    greenwave, config, monkeypatch
):
    stopped = []

    def stop(instance):
        os.kill(os.getpid(), signal.SIGINT)
        stopped.append(instance)

    monkeypatch.setattr(Instance, "stop", stop)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupted = greenwave(*UP, str(config))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert (interrupted.code, len(stopped)) == (130, 1)
    assert "Interrupted: everything is being stopped ..." in interrupted.err


class FakeInstance:
    stopped = 0

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def instance(monkeypatch):
    monkeypatch.setattr(up, "_POLL_S", 0.0)
    return FakeInstance()


@pytest.fixture
def stays(instance) -> Callable[..., None]:
    """Stay until the guard has been looked for so often, and then meet an event."""

    def stays(looks: int, event: Callable[[], None]) -> None:
        left = iter(range(looks))

        def is_guarded() -> bool:
            if next(left, None) is not None:
                return True
            event()
            return False

        supervisor = SimpleNamespace(is_guarded=is_guarded)
        stay(instance, cast(Supervisor, supervisor))

    return stays


def test_sigterm_stops_everything(stays, instance):
    before = signal.getsignal(signal.SIGTERM)
    try:
        exit_on_sigterm()
        stays(3, lambda: signal.raise_signal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert instance.stopped == 1


def test_without_a_supervisor_the_rest_is_stopped_and_orphans_are_reaped(stays, instance):
    orphan = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(InstanceError, match="The supervisor has died"):
        stays(3, lambda: None)
    assert instance.stopped == 1
    assert not psutil.pid_exists(orphan.pid)
    orphan.wait()


def test_a_command_names_only_another_folder_whole_and_quoted_for_the_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(usual_data_dir()))
    assert greenwave_command("down", None) == ".venv/bin/greenwave down"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", "it's here")
    command = shlex.split(greenwave_command("down", 23000))
    program = [".venv/bin/greenwave", "down", "--port-base", "23000"]
    assert command == [f"DATA_DIR={tmp_path}/it's here", *program]


def test_up_prints_commands_for_this_instance(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
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
