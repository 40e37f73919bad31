"""The edge under supervision: a real HAProxy without servers."""

import contextlib
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psutil
import pytest

from load_tests.harness.free_ports import free_ports
from load_tests.harness.waiting import wait_until
from serve_app.errors import EdgeError
from serve_app.processes.edge import Edge
from serve_app.processes.instance import Instance
from serve_app.processes.ports import OF_EDGE, Ports
from serve_app.processes.status_file import StatusFile
from serve_app.processes.supervision.managed_edge import ManagedEdge
from tests.unit.serve_app.processes.test_replica_servers import PARSED, written_by_serve


@pytest.fixture
def edge(tmp_path, monkeypatch):
    """Return an edge on free ports."""
    names = ("http", "front", "edge_metrics", *OF_EDGE)
    ports: dict[str, Any] = dict(zip(names, free_ports(7), strict=True))
    edge = Edge(Instance(tmp_path, replace(Ports(), **ports), temp_dir=tmp_path))
    yield edge
    edge.stop()


@pytest.fixture
def status_file(tmp_path):
    return StatusFile(tmp_path / "edge.json")


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_the_edge_does_not_start_before_its_configuration_is_written(edge, status_file):
    managed = ManagedEdge(edge)
    began = in_background(managed.start_or_adopt)
    began.join(0.2)
    assert began.is_alive()
    assert not edge.is_running()
    edge.apply(status_file)
    began.join()
    assert edge.answers()


def test_it_has_the_replicas_that_serve_has_also_after_its_death_and_a_reload(edge):
    config = written_by_serve(edge.instance.haproxy_dir / "node", edge.instance.ports.front)
    edge.check()
    ending = threading.Event()
    supervised = in_background(lambda: supervise(ManagedEdge(edge), ending))
    for _ in range(2):
        wait_until(lambda: servers_of(edge) == PARSED["/"], 10, "the replicas are there")
        master = edge.master()
        ended = [master, *master.children()]
        master.kill()
        assert psutil.wait_procs(ended, 5)[1] == []
    wait_until(lambda: servers_of(edge) == PARSED["/"], 10, "the replicas are there")
    edge.master().send_signal(signal.SIGUSR2)
    config.write_text(config.read_text().replace("127.0.0.1:30001", "127.0.0.1:30002"))
    changed = {n: a.replace("30001", "30002") for n, a in PARSED["/"].items()}
    wait_until(lambda: servers_of(edge) == changed, 10, "the new address is there")
    ending.set()
    edge.master().kill()
    supervised.join(5)
    assert not supervised.is_alive()


def supervise(managed: ManagedEdge, ending: threading.Event) -> None:
    while not ending.is_set():
        managed.start_or_adopt()
        managed.wait()


def servers_of(edge: Edge) -> dict[str, str]:
    """Return the replicas of the inference service that the edge has."""
    with contextlib.suppress(OSError):
        servers = edge.replica_servers().present()
        prefix = "inference-replicas/"
        return {
            n.removeprefix(prefix): a.address for n, a in servers.items() if n.startswith(prefix)
        }
    return {}


def test_a_taken_port_is_reported_with_its_holder(edge):
    edge.check()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", edge.instance.ports.loans))
        holder.listen()
        taken = f"port {edge.instance.ports.loans} is taken by .* \\(process"
        for start in (edge.check, ManagedEdge(edge).start_or_adopt):
            with pytest.raises(EdgeError, match=taken):
                start()


def test_a_running_edge_is_adopted_reloaded_for_another_configuration_and_stopped(
    edge, status_file
):
    edge.check()
    ManagedEdge(edge).start_or_adopt()
    master, managed = edge.master(), ManagedEdge(edge)
    assert managed.start_or_adopt() == master.create_time()
    assert edge.master() == master
    edge.apply(status_file)
    (worker,) = edge.master().children()
    edge.apply(status_file)
    assert edge.master().children() == [worker]
    another = Edge(edge.instance, host="0.0.0.0")
    another.apply(status_file)
    psutil.wait_procs([worker], timeout=10)
    assert not worker.is_running()
    assert another.answers()
    managed.stop()
    assert not edge.is_running()
