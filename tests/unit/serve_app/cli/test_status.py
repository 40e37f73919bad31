"""``greenwave status`` on real processes in the place of the supervisor."""

from __future__ import annotations

import json
import socket
import subprocess
from dataclasses import replace

import pytest

from load_tests.harness.free_ports import free_port
from serve_app.cli import status as status_command
from serve_app.cli.main import main
from serve_app.processes.edge import Edge
from serve_app.processes.installation import instance_of
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from serve_app.processes.process_tags import ROLE_TAG, Role
from serve_app.processes.replica_servers import ServeFront
from serve_app.processes.supervision.supervisor import GUARD, MODULE, RUN


@pytest.fixture
def start(tmp_path, monkeypatch, ray_api, start_process):
    """Start a process in the place of a part of the supervisor."""
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    ports = replace(Ports(), dashboard=int(ray_api.url.rpartition(":")[2]))
    instance = replace(instance_of(None), ports=ports)
    monkeypatch.setattr(status_command, "running", lambda options: instance)
    ray_api.serve({"name": "flow", "route_prefix": "/flow"})
    monkeypatch.setattr(status_command, "failing_checks", lambda url: [])
    tags = {ROLE_TAG: str(Role.SUPERVISOR)}
    return lambda part: start_process(tmp_path, f"{MODULE}.{part}", **tags)


@pytest.fixture
def status(capsys):
    """Return each line by its first word."""

    def run() -> dict[str, str]:
        main(["status"])
        return {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}

    return run


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_a_dead_guard_is_reported_and_a_dead_supervisor(start, status, tmp_path):
    guard, supervisor = start(GUARD), start(RUN)
    assert not {"guard", "supervisor"} & set(status())
    end(guard)
    lines = status()
    up = f"(start it with `DATA_DIR={tmp_path} .venv/bin/greenwave up`)"
    assert lines["guard"].split(maxsplit=2)[1:] == ["STOPPED", up]
    assert "not supervised" not in lines["edge"] + lines["Ray"]
    end(supervisor)
    lines = status()
    assert lines["supervisor"].split(maxsplit=2)[1:] == ["STOPPED", up]
    assert "not supervised" in lines["edge"]
    assert "not supervised" in lines["Ray"]


def test_programs_read_it_as_json(start, capsys):
    start(RUN)
    assert main(["status", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == "Not everything runs: edge, guard.\n"
    printed = json.loads(out)
    assert printed["applications"] == [
        {"name": "flow", "status": "RUNNING", "message": "", "not_ready": []}
    ]
    supervised = {each["name"]: each["supervised"] for each in printed["processes"]}
    assert supervised == {"edge": True, "Ray": True}
    assert (printed["supervisor"], printed["urls"]["Serve itself"][:7]) == (False, "http://")


def test_a_service_that_is_not_ready_is_reported_with_the_reason(start, status, monkeypatch):
    assert status()["flow"].split() == ["flow", "RUNNING"]

    def failing(url: str) -> list[str]:
        return ["The store does not serve."] if url.endswith("/flow") else []

    monkeypatch.setattr(status_command, "failing_checks", failing)
    assert status()["flow"].endswith("RUNNING (not ready: The store does not serve.)")


def test_what_runs_as_a_whole_ends_with_0(start, monkeypatch):
    start(GUARD), start(RUN)
    monkeypatch.setattr(Edge, "is_running", lambda self: True)
    assert main(["status"]) == 0


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        ({"since": 1.0, "error": "Old."}, "Ray does not answer: it is being stopped, or has"),
        ({"since": None, "restarts": 1, "error": "Ray has ended."}, "Ray is restarting. Ray has"),
        ({}, "Ray is starting."),
    ],
)
def test_without_ray_the_status_gives_the_present_reason(
    start, monkeypatch, recorded, message, tmp_path, capsys
):
    start(RUN)
    (tmp_path / "ray.json").write_text(json.dumps(recorded))
    monkeypatch.undo()
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    assert main(["status"]) == 1
    assert capsys.readouterr().err.startswith(message)


def test_what_serves_front_lacks_is_reported(start, status, monkeypatch):
    assert "front" not in status()
    monkeypatch.setattr(ServeFront, "missing", lambda self: ["It lacks ids."])
    assert status()["front"].split(maxsplit=1)[1] == "It lacks ids."


def test_down_leaves_the_files_of_a_system_with_another_data_folder(monkeypatch, tmp_path, capsys):
    files = tmp_path / "run"
    files.mkdir()
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "edge.sock").touch()
    ports = Ports(http=free_port())
    with socket.create_server(("127.0.0.1", ports.http)):
        instance = Instance(tmp_path / "another", ports, files)
        monkeypatch.setattr(status_command, "instance_of", lambda port_base: instance)
        assert main(["down"]) == 0
        assert "Nothing was running" in capsys.readouterr().out
        assert files.exists()
    assert main(["down"]) == 0
    assert not files.exists()
    assert not (tmp_path / "another" / "edge.sock").exists()
