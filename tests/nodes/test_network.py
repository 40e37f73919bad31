"""The network that stands for machines: who reaches whom, and that nothing of it is left."""

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.support.network import Network, remove_leftovers, run, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=str(why_not()))


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    network.add_host(1)
    network.add_host(2)
    yield network
    network.remove()


def reaches(network: Network, one: int, other: str) -> bool:
    ping = ["ip", "netns", "exec", network.namespace(one), sys.executable, "-c", CONNECT, other]
    return subprocess.run(ping, timeout=10).returncode == 0


CONNECT = """
import errno, socket, sys
with socket.socket() as end:
    end.settimeout(2)
    sys.exit(end.connect_ex((sys.argv[1], 9)) != errno.ECONNREFUSED)
"""


def test_hosts_that_are_cut_off_reach_the_others_and_each_other_again_afterwards(
    network,
):
    assert reaches(network, 1, network.address(2))
    with network.cut(1, [2]):
        assert not reaches(network, 1, network.address(2))
        assert not reaches(network, 2, network.address(1))
        assert reaches(network, 1, network.gateway)
    assert reaches(network, 1, network.address(2))


def test_what_a_killed_test_has_left_is_removed_and_what_lives_is_not(network):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    bridge, host, end = f"gw{gone.pid}a", f"gw{gone.pid}an1", f"gw{gone.pid}av1"
    run("ip", "link", "add", bridge, "type", "bridge")
    run("ip", "netns", "add", host)
    run("ip", "link", "add", end, "type", "veth", "peer", "name", f"gw{gone.pid}ax1")
    left = subprocess.Popen(["ip", "netns", "exec", host, "sleep", "600"])
    remove_leftovers()
    assert left.wait(timeout=5) < 0
    names = run("ip", "netns", "list") + run("ip", "link", "show")
    assert bridge not in names
    assert end not in names
    assert network.namespace(2) in names


def test_a_host_that_is_killed_has_no_process(network):
    with subprocess.Popen(["ip", "netns", "exec", network.namespace(1), "sleep", "600"]) as child:
        assert psutil.Process(child.pid).is_running()
        network.kill(1)
        assert network.processes(1) == []
