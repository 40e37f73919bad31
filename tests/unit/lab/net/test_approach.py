"""How far back a signal looks, in a net that is cut into short lanes."""

import pytest

from lab.net.importing import import_network, lanes_behind
from lab.net.net import SumoLane, SumoNet
from tests.unit.lab.net.sumo_nets import LINKS, NODE, PROGRAM, ROADS, program, write_net


def chain(*ways: tuple[str, str], **lengths_m: float) -> SumoNet:
    net = SumoNet({name: SumoLane(name, name, metres, ()) for name, metres in lengths_m.items()})
    for start, end in ways:
        net.ahead[start].add(end)
        net.behind[end].add(start)
    return net


def test_a_stub_reaches_back_until_it_is_long_enough():
    net = chain(("far", "mid"), ("mid", "near"), ("near", "stop"), stop=1, near=20, mid=40, far=90)
    assert lanes_behind(net, "stop") == {"near": 1, "mid": 1}


def test_a_lane_before_two_shares_its_vehicles():
    net = chain(("near", "stop"), ("near", "left"), ("far", "near"), stop=1, left=1, near=9, far=60)
    assert lanes_behind(net, "stop") == {"near": 0.5, "far": 0.5}


def test_a_roundabout_of_stubs_ends():
    net = chain(("b", "a"), ("a", "b"), ("b", "stop"), stop=1, a=2, b=2)
    assert lanes_behind(net, "stop") == {"b": 0.5, "a": 0.5}


def test_an_imported_stub_has_the_capacity_of_what_is_behind_it(tmp_path):
    stub = ROADS.replace('index="0" speed="13.9" length="75" shape="-80,0 -5,0"',
                         'index="0" speed="13.9" length="1.5" shape="-6.5,0 -5,0"')  # fmt: skip
    before = '<edge id="avenue"><lane id="avenue_0" length="60" shape="-70,0 -7,0"/></edge>'
    way = '<connection from="avenue" to="west" fromLane="0" toLane="0" dir="s"/>'
    path = write_net(tmp_path, stub, before, NODE, program(PROGRAM), LINKS, way)
    west, north = import_network(path)[0].junctions[0].lanes
    assert [(each.lane, each.share) for each in west.behind or ()] == [("avenue_0", 1)]
    assert hash(west) != hash(north)  # scenarios are keys of caches
    assert west.capacity == pytest.approx(61.5 / 7.5)
    assert north.behind is None
    assert west.count({"west_0": 1, "avenue_0": 4}.__getitem__) == 5
    of_another_signal = way.replace("dir=", 'tl="b" linkIndex="0" dir=')
    path = write_net(tmp_path, stub, before, NODE, program(PROGRAM), LINKS, of_another_signal)
    assert import_network(path)[0].junctions[0].lanes[0].behind is None
