"""What becomes of a SUMO network's signals, and what is said of it."""

import gzip
import re
from pathlib import Path

import pytest

from lab.net.importing import SHOWN_OF_A_KIND, Remarks, import_network
from lab.net.net import read_sumo_net
from models.networks.file import InvalidNetworkError
from models.networks.form import JunctionEntry
from models.networks.shipped import NET_FILE
from tests.unit.lab.net.sumo_nets import LINKS, NODE, PROGRAM, ROADS, lane, link, program, write_net


def said(folder: Path, *parts: str) -> tuple[list[str], JunctionEntry]:
    network, remarks = import_network(write_net(folder, *parts))
    return list(remarks.sentences()), network.junctions[0]


def test_an_ordinary_signal_is_imported_without_a_remark(tmp_path):
    network, remarks = import_network(write_net(tmp_path, ROADS, NODE, program(PROGRAM), LINKS))
    (junction,) = network.junctions
    assert list(remarks.sentences()) == []
    assert (network.name, junction.id, junction.position) == ("town", "a", (0, 0))
    assert [phase.state for phase in junction.phases] == ["Gr", "rG"]
    assert [phase.name for phase in junction.phases] == ["west", "north"]
    assert [(each.id, each.capacity) for each in junction.lanes] == [
        ("west_0", 10),
        ("north_0", 10),
    ]
    assert junction.lanes[0].shape == ((-80, 0), (-5, 0))
    assert junction.intergreen_s is not None
    assert junction.intergreen_s[0][0] is None
    assert (junction.intergreen_s[0][1] or 0) >= 3


def test_a_packed_net_is_the_same_net(tmp_path):
    plain = write_net(tmp_path, ROADS, NODE, program(PROGRAM), LINKS)
    packed = tmp_path / "town.net.xml.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert import_network(packed)[0] == import_network(plain)[0]


@pytest.mark.parametrize(
    ("states", "remark", "phases"),
    [
        (("Gr", "rr", "rG"), None, ["Gr", "rG"]),
        (("Gr", "yr", "rG", "Gr"), None, ["Gr", "rG"]),
        (("Gr", "ur", "rG"), None, ["Gr", "rG"]),
        (("Gs", "ys", "rG"), "right turns on red", ["Gs", "rG"]),
        (("GG", "Gr", "yr", "rG"), None, ["GG", "Gr", "rG"]),
    ],
    ids=["all red", "twice", "red and yellow", "right on red", "two stages"],
)
def test_phases_are_what_shows_green_and_no_yellow(tmp_path, states, remark, phases):
    sentences, junction = said(tmp_path, ROADS, NODE, program(states), LINKS)
    assert [phase.state for phase in junction.phases] == phases
    assert len(sentences) == (remark is not None)
    assert remark is None or remark in sentences[0]


def test_a_program_is_taken_by_its_id_where_a_signal_has_it(tmp_path):
    first = program(("Gr", "rr", "rG", "GG"), name="night") + program(PROGRAM, name="day")
    other = program(("Gr", "rG"), "b", "always") + LINKS.replace('tl="a"', 'tl="b"')
    single = program(("G",), "c", "night") + program(("G", "r"), "c", "day")
    parts = first, LINKS, other, single, link("west", "east", 0, "c")
    path = write_net(tmp_path, ROADS, NODE, *parts)
    network, remarks = import_network(path, program="night")
    sentences = list(remarks.sentences())
    assert [each.id for each in network.junctions] == ["a", "b"]
    assert [phase.state for phase in network.junctions[0].phases] == ["Gr", "rG", "GG"]
    assert "a has the programs night, day; night is taken." in sentences
    assert "c is left out: it has one stage, and nothing to decide." in sentences
    with pytest.raises(InvalidNetworkError, match=r"no program dusk; it has night, day, always\."):
        import_network(path, program="dusk")


def test_a_plan_in_steps_of_a_second_has_its_stages_as_actions(tmp_path):
    steps = (*["GGrr"] * 20, "Gyrr", "Gyrr", "GrGr", *["rrGG"] * 15, *["rrGr"] * 4, "rryr")
    links = "".join(
        link(*ways, index) for index, ways in enumerate([("west", "east"), ("west", "south")] * 2)
    )
    seconds = program(steps).replace('duration="20"', 'duration="1"')
    sentences, junction = said(tmp_path, ROADS, NODE, seconds, links)
    assert [phase.state for phase in junction.phases] == ["GGrr", "rrGG"]
    assert (
        "a: GrGr is not an action, as it takes less than 5 s, and longer stages have its greens."
        in (sentences)
    )
    assert "a: rrGr is not an action, as rrGG has all its greens for longer." in sentences


def test_the_clearance_of_a_crossing_is_no_phase(tmp_path):
    walked = lane(":a_w0", "9,9 9,-9", "walkingarea") + lane(":a_c0", "9,9 9,-9", "crossing")
    parts = program(("GrG", "Grr", "yrr", "rGr")), LINKS, link(":a_w0", ":a_c0", 2)
    sentences, junction = said(tmp_path, ROADS, walked, NODE, *parts)
    assert [phase.state for phase in junction.phases] == ["GrG", "rGr"]
    assert junction.phases[0].name == "west; a crossing"
    assert "a: Grr is not an action, as GrG differs only in crossings." in sentences
    assert [each.id for each in junction.lanes] == ["west_0", "north_0"]
    assert junction.intergreen_s is not None
    (crossing,) = [link for link in junction.links or () if link.crossing]
    assert (crossing.crossing, crossing.shape) == (":a_c0", ((9, 9), (9, -9)))


def test_an_id_that_is_too_long_is_refused_with_its_length(tmp_path):
    name = "cluster_" + "1" * 275
    with pytest.raises(InvalidNetworkError, match=r"has 283 characters, but may have 200\. Rename"):
        said(tmp_path, ROADS, NODE, program(PROGRAM, name), LINKS.replace('tl="a"', f'tl="{name}"'))


def test_edges_whose_function_is_stated_to_be_normal_are_roads(tmp_path):
    stated = re.sub('edge id="([a-z])', r'edge function="normal" id="\1', ROADS)
    net = read_sumo_net(write_net(tmp_path, stated, NODE, program(PROGRAM), LINKS))
    assert list(net.edges) == ["west", "north", "east", "south"]


def test_programs_of_additional_files_and_of_files_they_include_count_as_in_sumo(tmp_path):
    net = write_net(tmp_path, ROADS, NODE, program(PROGRAM), LINKS)
    more, included = tmp_path / "more.add.xml", tmp_path / "included.add.xml"
    moved = '<tlLogic id="a" programID="0" offset="20"/>'
    switch = '<WAUT id="w"/><wautJunction wautID="w" junctionID="a"/>'
    included.write_text(f"<additional>{program(('GG', 'yy', 'Gr', 'rG'), name='day')}</additional>")
    more.write_text(f'<additional>{moved}<include href="{included.name}"/>{switch}</additional>')
    network, remarks = import_network(net, additional=(more,))
    assert [phase.state for phase in network.junctions[0].phases] == ["GG", "Gr", "rG"]
    assert list(remarks) == [
        "a has the programs 0, day; day is taken.",
        "a: the WAUT w, which switches its programs, is left out.",
    ]
    assert [each.offset for each in read_sumo_net(net, [more]).programs["a"]] == ["20", "0"]
    included.write_text('<additional><include href="more.add.xml"/></additional>')
    with pytest.raises(InvalidNetworkError, match="it includes itself"):
        import_network(net, additional=(more,))


def test_steps_outside_the_cycle_and_conditions_are_remarks(tmp_path):
    text = "".join(
        f'<phase duration="{seconds}" state="{state}" {more}/>'
        for seconds, state, more in (
            ("0:00:20", "Gr", 'next="1" finalTarget="C"'),
            ("3.6", "yr", ""),
            ("20", "rG", ""),
            ("3", "ry", 'next="0"'),
            ("9", "GG", ""),
        )
    )
    logic = f'<tlLogic id="a" type="actuated"><condition id="C" value="1"/>{text}</tlLogic>'
    sentences, junction = said(tmp_path, ROADS, NODE, logic, LINKS)
    assert [phase.state for phase in junction.phases] == ["Gr", "rG"]
    assert sentences == [
        "a: steps of its program that never recur are left out (1).",
        "a: only fixed time keeps the conditions of its program.",
    ]


def test_links_may_share_letters_and_letters_may_have_no_link(tmp_path):
    parts = program(("Grr", "rrG")), link("west", "east", 0), link("north", "south", 2)
    _, junction = said(tmp_path, ROADS, NODE, *parts, link("west", "south", 0))
    assert [each.index for each in junction.links or ()] == [0, 0, 2]


def test_lanes_that_are_unknown_or_never_get_green_are_left_out(tmp_path):
    parts = program(("Grrr", "rGrr")), LINKS, link("nowhere", "south", 2), link("east", "west", 3)
    sentences, junction = said(tmp_path, ROADS, NODE, *parts)
    assert [each.id for each in junction.lanes] == ["west_0", "north_0"]
    assert any("nowhere_0, which is not a lane" in each for each in sentences)
    assert any("east_0 never gets green" in each for each in sentences)


def test_a_joined_signal_is_one_agent_in_the_middle_of_its_stop_lines(tmp_path):
    parts = program(PROGRAM), link("west", "east", 0, extra='via=":b_0_0"'), LINKS
    _, junction = said(tmp_path, ROADS, *parts)
    assert junction.position == (-2.5, 2.5)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ((ROADS,), "has no signals."),
        ((ROADS, program(("G",)), link("west", "east", 0)), "has no signal to control."),
        (("<broken>",), "is not a SUMO network: mismatched tag"),
        (('<tlLogic type="static"/>',), "is not a SUMO network: an element has no 'id'"),
        (
            (ROADS.replace("north", "nörd"), program(PROGRAM), LINKS.replace("north", "nörd")),
            "nörd",
        ),
    ],
    ids=["no signals", "one phase alone", "broken", "no id", "an id that is not allowed"],
)
def test_a_net_that_cannot_be_imported_is_refused_in_a_sentence(tmp_path, parts, sentence):
    with pytest.raises(InvalidNetworkError, match=r"town\.net\.xml") as refused:
        import_network(write_net(tmp_path, *parts))
    assert sentence in str(refused.value)
    (tmp_path / "town.net.xml").write_text("<routes/>")
    with pytest.raises(InvalidNetworkError, match="begins with <routes>, not with <net>"):
        import_network(tmp_path / "town.net.xml")
    with pytest.raises(InvalidNetworkError, match="cannot be read: No such file"):
        import_network(tmp_path / "nowhere.net.xml")


PACKED = gzip.compress(NET_FILE.read_bytes(), mtime=0)


@pytest.mark.parametrize(
    "content",
    [PACKED[:5000], PACKED[:10] + b"\xff" * 50, PACKED[:-8] + bytes(8), PACKED[:5]],
    ids=["cut off", "overwritten", "with another checksum", "without a body"],
)
def test_a_damaged_archive_is_not_a_net(tmp_path, content):
    path = tmp_path / "town.net.xml.gz"
    path.write_bytes(content)
    with pytest.raises(InvalidNetworkError, match=r"is not a SUMO network|cannot be read"):
        import_network(path)


def test_signals_can_be_chosen_and_an_unknown_one_is_refused():
    network, _ = import_network(NET_FILE, signals=("300839359", "265580972"))
    assert [each.id for each in network.junctions] == ["265580972", "300839359"]
    with pytest.raises(InvalidNetworkError, match="has no signal elsewhere"):
        import_network(NET_FILE, signals=("elsewhere",))


def test_many_remarks_of_one_kind_are_counted_and_not_told():
    remarks = Remarks()
    for number in range(10_000):
        remarks.add("left out", f"{number} is left out.")
    sentences = list(remarks.sentences())
    assert len(sentences) == SHOWN_OF_A_KIND + 1
    assert sentences[-1] == f"... and {10_000 - SHOWN_OF_A_KIND} more remarks like that."
