"""A replica takes calls where Ray has this node, and nowhere else."""

import inspect
import socket

import grpc
import psutil
import ray
from ray.serve._private import replica as serve_replica

from deployments.ray_private.serve import keep_calls_inside
from tests.support.listening import open_to_others


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
