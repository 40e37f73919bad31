"""A socket that others may reach is found, whatever it is written like."""

import socket

import psutil
import pytest

from tests.support.listening import listening, open_to_others


@pytest.mark.parametrize(
    ("family", "address", "is_open"),
    [
        (socket.AF_INET, "127.0.0.1", False),
        (socket.AF_INET, "127.0.0.2", False),
        (socket.AF_INET6, "::1", False),
        (socket.AF_INET6, "::ffff:127.0.0.1", False),
        (socket.AF_INET, "0.0.0.0", True),
        (socket.AF_INET6, "::", True),
    ],
)
def test_what_others_reach_is_named(family, address, is_open):
    me = psutil.Process()
    with socket.socket(family) as listener:
        listener.bind((address, 0))
        assert (me.name(), address, listener.getsockname()[1]) not in set(listening([me]))
        listener.listen()
        port = listener.getsockname()[1]
        assert any(each[2] == port for each in listening([me]))
        assert any(each.endswith(f":{port}") for each in open_to_others([me])) is is_open
