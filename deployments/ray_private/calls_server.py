"""Of the gRPC server by which a replica is called through handles."""

from __future__ import annotations

from typing import Any

import ray
from ray._common.network_utils import build_address
from ray.serve._private import replica as serve_replica

_EVERYWHERE = "[::]:0"


def keep_calls_inside() -> None:
    """Have this replica take calls at Ray's address of this node alone.

    Serve would listen on every address, and unpickles what it is sent: that runs code, for anybody
    where Ray asks for no token. To be called before the replica is initialized.
    """
    listen = serve_replica.add_port_to_grpc_server

    def listen_inside(server: Any, address: str) -> Any:
        if address == _EVERYWHERE:
            address = build_address(ray.util.get_node_ip_address(), 0)
        return listen(server, address)

    serve_replica.add_port_to_grpc_server = listen_inside
