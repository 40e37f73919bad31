"""An instance's ports and processes are its own, and found by their tags."""

import json
import os
import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import psutil
import pytest

from serve_app.errors import InstanceError
from serve_app.processes.instance import Instance, boot_id
from serve_app.processes.ports import Ports
from serve_app.processes.process_tags import INSTANCE_TAG, ROLE_TAG, Role, read_command, read_tag


def test_ports_from_a_base_do_not_overlap():
    ports = Ports.from_base(27000)
    single = set(ports.single().values())
    assert len(single) == len(Ports().single())
    ranges = [set(range(r[0], r[1] + 1)) for r in (ports.workers, ports.replicas)]
    assert not single & ranges[0]
    assert not single & ranges[1]
    assert not ranges[0] & ranges[1]
    assert all(27000 <= port < 27500 for port in single | ranges[0] | ranges[1])
    assert ports.http == 27000 != ports.front


def test_what_runs_is_found_on_the_ports_that_it_was_started_with(tmp_path):
    alone = Instance(tmp_path, Ports.from_base(27000).without_edge())
    ports = alone.ports.single() | {"former": 1}  # another version may have had it
    record = {"pid": 1, "boot": boot_id(), "ports": ports}
    (tmp_path / "instance.json").write_text(json.dumps(record))
    assert Instance(tmp_path, Ports.from_base(27000)).with_recorded_ports() == alone
    record["boot"] = "an earlier one"
    (tmp_path / "instance.json").write_text(json.dumps(record))
    assert Instance(
        tmp_path, Ports.from_base(27000)
    ).with_recorded_ports().ports == Ports.from_base(27000)


@pytest.fixture
def taken_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


@pytest.fixture
def short_dir():
    """Return a folder whose path leaves room for the names of sockets."""
    with TemporaryDirectory(prefix="gw-", dir="/tmp") as folder:
        yield Path(folder)


def test_a_taken_port_is_refused_in_one_sentence_and_nothing_is_started(
    tmp_path, short_dir, taken_port
):
    instance = Instance(tmp_path, replace(Ports.from_base(26500), front=taken_port), short_dir)
    with pytest.raises(InstanceError, match=rf"Port {taken_port} \(for front\) is taken") as error:
        instance.start()
    assert "\n" not in str(error.value)
    assert instance.processes() == []


def test_a_full_disk_is_reported_before_anything_is_started(tmp_path, short_dir, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=5 << 20))
    instance = Instance(tmp_path, temp_dir=short_dir)
    with pytest.raises(
        InstanceError, match=r"Only 5 MB are free on the disk of .*, and Ray needs 1 GB"
    ):
        instance.start()
    assert instance.processes() == []


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("Traceback:\n  Exception: too slow.\n\n", "Exception: too slow"),
        ("", "it ended with code 3"),
    ],
)
def test_a_head_that_ends_is_reported_in_one_sentence(tmp_path, written, reason):
    instance = Instance(tmp_path, Ports.from_base(26500), tmp_path / "run")
    instance.log.write_text(written)
    with pytest.raises(InstanceError) as error:
        instance.wait_until_started(lambda: 3)
    logs = tmp_path / "run" / "ray" / "session_latest" / "logs"
    assert str(error.value) == f"Ray did not start: {reason}. Its logs are in {logs}."


def test_the_edge_and_the_supervisor_outlive_ray(tmp_path, start_process):
    roles = [Role.RAY, Role.EDGE, Role.SUPERVISOR]
    processes = {role: start_process(tmp_path, **{ROLE_TAG: str(role)}) for role in roles}
    Instance(tmp_path).stop_ray(timeout_s=0)
    left = [role for role in roles if processes[role].poll() is None]
    assert left == [Role.EDGE, Role.SUPERVISOR]


def test_only_marked_processes_are_found_and_stopped(tmp_path, start_process):
    instance = Instance(tmp_path)
    ours, other = start_process(tmp_path), start_process(tmp_path / "other")
    assert [process.pid for process in instance.processes()] == [ours.pid]
    assert instance.stop() is True
    ours.wait(10)  # it would have run indefinitely
    assert other.poll() is None
    assert instance.stop() is False


EXECUTE_ANEW = """
[ -e "$1" ] || exec sh "$0" "$1"
"""
LOOKS = 1000


@pytest.fixture
def restless(tmp_path):
    """Start a process that executes itself anew all the time, as HAProxy's master does once."""
    script, enough = tmp_path / "again", tmp_path / "enough"
    script.write_text(EXECUTE_ANEW)
    started = subprocess.Popen(
        ["sh", str(script), str(enough)], env=os.environ | {INSTANCE_TAG: "here"}
    )
    yield psutil.Process(started.pid)
    enough.touch()
    started.wait()


def test_a_process_keeps_its_tag_and_command_while_it_executes_a_program(restless):
    for _ in range(LOOKS):
        assert read_tag(restless, INSTANCE_TAG) == "here"
        assert read_command(restless)[0] == "sh"
    assert read_tag(restless, "GREENWAVE_NOT_THERE") is None


def test_an_ended_process_has_no_tag():
    ended = subprocess.Popen(["true"], env=os.environ | {INSTANCE_TAG: "here"})
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert read_tag(psutil.Process(ended.pid), INSTANCE_TAG) is None
    ended.wait()
