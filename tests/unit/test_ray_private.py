"""What Ray keeps to itself is used in one package, which was read against the installed version."""

import ast
import contextvars
import errno
import inspect
import io
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import grpc
import psutil
import pytest
import ray
from ray.serve._private import replica as serve_replica
from ray.serve._private.common import ReplicaState
from ray.serve._private.logging_utils import StreamToLogger
from ray.serve.context import _RequestContext, _serve_request_context

from deployments import ray_private
from deployments.ray_private import core
from deployments.ray_private.serve import keep_calls_inside, prepare_log, replicas_of
from tests.support.listening import open_to_others

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("models", "lab", "deployments", "serve_app", "tools", "load_tests")


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_private(name: str) -> bool:
    root, *rest = name.split(".")
    return root == "ray" and any(part.startswith("_") for part in rest)


def test_only_one_package_imports_what_is_private_to_ray():
    users = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if any(map(is_private, imports_of(path)))
    }
    assert users == {
        f"deployments/ray_private/{name}.py"
        for name in ("command", "core", "fork_server", "http_server", "serve")
    }


def test_it_was_read_in_the_installed_version():
    assert ray.__version__.startswith(f"{ray_private.READ_IN}.")


@pytest.mark.parametrize(
    ("known", "process"), [("ALIVE", ("n1", 7)), ("RESTARTING", ("n1", 7)), ("DEAD", ("", 0))]
)
def test_an_actor_that_is_dead_for_good_has_no_process(monkeypatch, known, process):
    actor = {"State": known, "Address": {"NodeID": "n1"}, "Pid": 7}
    monkeypatch.setattr(core, "state", SimpleNamespace(actor_table=lambda actor_id: actor))
    assert core.read_actor_process("an id") == process


def test_a_line_of_a_replicas_log_names_its_request_once(monkeypatch):
    class Handler(logging.Handler):
        def emit(self, record):
            requests.append(getattr(record, "request_id", None))

    requests: list[str | None] = []
    monkeypatch.setattr(logging, "raiseExceptions", True)  # and put it back afterwards
    logger, handler = logging.getLogger("ray.serve"), Handler()
    before = logger.filters[:]
    logger.addHandler(handler)
    try:
        prepare_log()
        prepare_log()
        assert len(logger.filters) == len(before) + 3
        context = contextvars.Context()
        context.run(_serve_request_context.set, _RequestContext(request_id="r-1"))
        context.run(logger.warning, "of a request")
        contextvars.Context().run(logger.warning, "of none")
    finally:
        logger.removeHandler(handler)
        logger.filters[:] = before
    assert requests == ["r-1", None]


@pytest.mark.parametrize("prepared", [True, False])
def test_on_a_full_disk_a_line_is_lost_and_its_request_is_answered(monkeypatch, prepared):
    logger, full = logging.getLogger("ray.serve"), logging.StreamHandler(Full())
    before = logger.filters[:], logger.handlers[:]
    monkeypatch.setattr(logging, "raiseExceptions", True)
    monkeypatch.setattr(sys, "stderr", StreamToLogger(logger, logging.INFO, sys.stderr))
    logger.handlers[:] = [full]
    try:
        if prepared:
            prepare_log()
            logger.warning("lost")
        else:
            with pytest.raises(RecursionError):
                logger.warning("lost")
    finally:
        logger.filters[:], logger.handlers[:] = before


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_the_state_of_a_replica_has_the_name_that_people_know():
    states = [ReplicaState.RUNNING, "STARTING"]
    replicas = [{"replica_id": f"r{n}", "state": state} for n, state in enumerate(states)]
    deployed = {"Inference": {"replicas": replicas}}
    told = replicas_of({"applications": {"inference": {"deployments": deployed}}})
    assert told == [
        ("inference", "Inference", "r0", "RUNNING"),
        ("inference", "Inference", "r1", "STARTING"),
    ]
    assert [f"{each.state}" for each in told] == ["RUNNING", "STARTING"]


async def test_it_listens_on_the_nodes_address(monkeypatch):
    monkeypatch.setattr(
        serve_replica, "add_port_to_grpc_server", serve_replica.add_port_to_grpc_server
    )
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    keep_calls_inside()
    server = grpc.aio.server()
    port = serve_replica.add_port_to_grpc_server(server, "[::]:0")
    await server.start()
    try:
        assert not [each for each in open_to_others([psutil.Process()]) if f":{port}" in each]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
    finally:
        await server.stop(None)


def test_serve_starts_its_server_as_expected():
    """Another Ray may have another way, and would listen everywhere again."""
    source = inspect.getsource(serve_replica.Replica._on_initialized)
    assert 'add_port_to_grpc_server(self._server, "[::]:0")' in source
