"""The keeper of the edge, on a real HAProxy without anything behind it."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable

import psutil
import pytest

from load_tests.harness.free_ports import free_ports
from serve_app.processes import kept_edge
from serve_app.processes.edge import Edge, EdgePorts
from serve_app.processes.instance import Instance
from serve_app.processes.journal import Journal
from serve_app.processes.ports import Ports
from serve_app.processes.process_tags import MARK, PART, Part
from serve_app.processes.supervision.edge import KeptEdge
from serve_app.processes.supervision.restarts import CannotRunError


@pytest.fixture
def edge(tmp_path, monkeypatch):
    """Name an edge on free ports; what its keeper starts bears the marks of its environment."""
    http, front, metrics, *others = free_ports(7)
    instance = Instance(tmp_path, Ports(http=http, front=front, edge_metrics=metrics))
    monkeypatch.setenv(MARK, instance.mark)
    monkeypatch.setenv(PART, str(Part.EDGE))
    edge = Edge(instance, EdgePorts(*others))
    yield edge
    edge.stop()


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "edge.json")


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def notices(caplog) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.getMessage().startswith("HAProxy: [NOTICE]")]


def test_there_is_no_edge_before_up_has_written_its_configuration(edge, journal):
    keeper = KeptEdge(edge)
    began = in_background(keeper.begin)
    began.join(0.2)
    assert began.is_alive()
    assert not edge.is_running()
    kept_edge.bring_up(edge, journal)
    began.join()
    assert edge.answers()


def test_a_killed_edge_is_noticed_and_started_again(edge):
    edge.check()
    keeper = KeptEdge(edge)
    keeper.begin()
    master = edge.master()
    master.kill()
    assert keeper.wait() == "The edge has ended."
    keeper.begin()
    assert edge.master() != master


def test_what_haproxy_says_is_in_lines_of_the_keeper(edge, caplog):
    caplog.set_level(logging.INFO, logger="greenwave.keeper")
    edge.check()
    keeper = KeptEdge(edge)
    keeper.begin()
    deadline = time.monotonic() + 30
    while not notices(caplog) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert {each.levelname for each in notices(caplog)} == {"INFO"}


def test_an_edge_that_runs_is_taken_over(edge, journal):
    edge.check()
    KeptEdge(edge).begin()
    master = edge.master()
    assert KeptEdge(edge).begin() == master.create_time()
    assert edge.master() == master


def test_a_taken_port_is_told_with_who_holds_it(edge):
    edge.check()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", edge.ports.loans))
        holder.listen()
        taken = f"port {edge.ports.loans} is taken by .* \\(process"
        with pytest.raises(CannotRunError, match=taken):
            KeptEdge(edge).begin()


def test_the_same_configuration_again_reloads_nothing_another_one_does(edge, journal):
    edge.check()
    KeptEdge(edge).begin()
    kept_edge.bring_up(edge, journal)
    (worker,) = edge.master().children()
    kept_edge.bring_up(edge, journal)
    assert edge.master().children() == [worker]
    another = Edge(edge.instance, edge.ports, host="0.0.0.0")
    kept_edge.bring_up(another, journal)
    psutil.wait_procs([worker], timeout=10)
    assert not worker.is_running()
    assert another.answers()


def test_a_keeper_that_ends_stops_the_edge(edge):
    edge.check()
    keeper = KeptEdge(edge)
    keeper.begin()
    keeper.stop()
    assert not edge.is_running()
