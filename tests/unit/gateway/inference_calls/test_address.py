import socket
from collections.abc import Awaitable, Callable

import pytest

from deployments.gateway.inference_calls.address import find_base_url
from deployments.ray_private.serve import Front
from load_tests.harness.free_ports import free_port


def reading(host: str | None, **routes: str) -> Callable[[], Awaitable[Front]]:
    async def read_front() -> Front:
        return Front(host, 8000, {"gateway": "/api", **routes})

    return read_front


@pytest.mark.parametrize(
    ("host", "route", "base"),
    [
        ("127.0.0.1", "/", "http://127.0.0.1:8000"),
        ("0.0.0.0", "/many", "http://127.0.0.1:8000/many"),
        ("::", "/", "http://127.0.0.1:8000"),
        (None, "/", "http://127.0.0.1:8000"),
        ("10.1.2.3", "/", "http://10.1.2.3:8000"),
        ("::1", "/", "http://[::1]:8000"),
    ],
)
async def test_the_base_is_made_of_serves_address_and_the_applications_route(host, route, base):
    read_front = reading(host, inference=route)
    assert await find_base_url("inference", read_front=read_front) == base


async def test_an_application_that_is_not_there_is_an_error():
    with pytest.raises(LookupError, match="inference"):
        await find_base_url("inference", read_front=reading("127.0.0.1"))


async def test_an_edge_that_listens_is_preferred():
    port, read_front = free_port(), reading("127.0.0.1", inference="/many")
    edge = f"http://127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", port)):
        assert await find_base_url("inference", edge, read_front) == f"{edge}/many"
    assert await find_base_url("inference", edge, read_front) == "http://127.0.0.1:8000/many"
