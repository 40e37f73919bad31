"""Where the edge learns which replicas there are: the configuration that Serve itself writes."""

import os
import socket
import threading
from pathlib import Path

import pytest

from serve_app.processes.replica_servers import ReplicaServers, ServeFront
from tests.unit.serve_app.processes.rendered_front import backend, rendered

PORT = 8123
REPLICAS: dict[str, tuple[str, list[str]]] = {
    "inference": ("/", ["a1", "b2"]),
    "gateway": ("/api", ["c3"]),
    "cards": ("/api/cards", []),
}
PARSED = {
    "/": {
        "SERVE_REPLICA_inference-Some-a1": "127.0.0.1:30000",
        "SERVE_REPLICA_inference-Some-b2": "127.0.0.1:30001",
    },
    "/api": {"SERVE_REPLICA_gateway-Some-c3": "127.0.0.1:30000"},
    "/api/cards": {},
}


def written_by_serve(folder: Path, port: int = PORT) -> Path:
    """Have Ray's own code write the configuration of a node."""
    backends = [
        backend(name, route, names, range(30000, 30000 + len(names)))
        for name, (route, names) in REPLICAS.items()
    ]
    return rendered(folder, port, backends)


@pytest.fixture
def config(tmp_path):
    return written_by_serve(tmp_path / "node-1")


def test_replicas_are_those_of_the_newest_configuration_of_this_cluster(config, tmp_path):
    older = tmp_path / "node-0" / "haproxy.cfg"
    older.parent.mkdir()
    older.write_text(config.read_text().replace("30001", "30009"))
    os.utime(older, (1, 1))
    os.utime(config, (2, 2))
    written_by_serve(tmp_path / "node-2", port=PORT + 1)
    assert ServeFront(tmp_path, PORT).replicas() == PARSED
    assert ServeFront(tmp_path, PORT + 2).replicas() == {}, "nothing is written yet"


def test_an_edge_that_ends_before_it_answers_is_an_error_that_is_tried_again(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "edge.sock"))
        listener.listen()
        (tmp_path / "edge.cfg").touch()
        servers = ReplicaServers(tmp_path / "edge.sock", tmp_path / "edge.cfg")
        servers.reconcile({})

        def take_the_command_and_end() -> None:
            with listener.accept()[0] as connection:
                connection.recv(4096)

        worker = threading.Thread(target=take_the_command_and_end)
        worker.start()
        with pytest.raises(OSError, match="did not answer"):
            servers.reconcile({})
        worker.join()
