"""Events have the codes of the Indiana enumerations, at the times of the lamps and loops."""

import csv
from datetime import timedelta, timezone
from itertools import chain

import pytest

from lab.shadow.events import DETECTORS, EVENTS, PHASES, Event, Numbering, events_of, write_events
from lab.shadow.log import ShadowLogError
from models.networks.form import NetworkFile
from models.networks.network import network_of
from tests.unit.lab.shadow.street import HARBOUR, START_S, cycles, decision, lamps, logged, loop

FIRST, SECOND = 1, 2  # the phases of the pier


def events(log, **options) -> list[tuple[float, int, int]]:
    """Return time from START_S, event and parameter of each event; all are of the pier."""
    made = events_of(log, HARBOUR, **options)
    assert {each.device for each in made} <= {1}
    return [(round(each.time_s - START_S, 3), each.event, each.parameter) for each in made]


def test_a_phase_has_green_yellow_and_red_clearance():
    of_second = [each for each in events(logged(cycles(2))) if each[2] == SECOND or each[1] == 302]
    assert of_second == [
        *((30, 0, 2), (30, 1, 2), (35, 3, 2), (55, 6, 2), (55, 7, 2), (55, 8, 2)),
        *((58, 9, 2), (58, 10, 2), (60, 11, 2), (60, 12, 2), (60, 302, 30)),
        *((90, 0, 2), (90, 1, 2), (95, 3, 2), (115, 6, 2), (115, 7, 2), (115, 8, 2)),
        *((118, 9, 2), (118, 10, 2)),
    ]


def test_what_is_green_at_first_is_left_out():
    first = [each for each in events(logged(cycles(2))) if each[2] == FIRST]
    assert first[0] == (60, 0, 1)
    repeated = [lamps(0, "GGrr"), lamps(5, "GGrr"), lamps(9, "yyrr")]
    assert events(logged(repeated)) == []


def test_a_clearance_of_no_time_lasts_a_tenth_of_a_second():
    states = [
        lamps(0, "GGrr"),
        lamps(5, "yyrr"),
        lamps(8, "rrGG"),
        lamps(9, "rryy"),
        lamps(12, "GGrr"),
    ]
    second = [each for each in events(logged(states)) if each[2] == SECOND and each[1] >= 9]
    assert second == [(12, 9, 2), (12, 10, 2), (12, 12, 2), (12.1, 11, 2)]


def test_greens_of_an_actuated_controller_end_by_max_out_or_gap_out():
    states = [
        *(lamps(0, "GGrr"), lamps(5, "yyrr"), lamps(8, "rrGG"), lamps(28, "rryy")),
        *(lamps(31, "GGrr"), lamps(43, "yyrr")),
    ]
    reasons = [each for each in events(logged(states), max_green_s=20) if each[1] in (4, 5, 6)]
    assert reasons == [(28, 5, 2), (43, 4, 1)]


def test_loops_switch_detectors_by_the_place_of_their_lane():
    log = logged([*cycles(1), loop(61, "pier_s_0"), loop(61.4, "pier_s_0", occupied=False)])
    assert events(log)[-2:] == [(61, 82, 2), (61.4, 81, 2)]


def test_a_later_segment_begins_with_a_clock_update_and_with_nothing_green():
    log = chain(logged(cycles(1)), logged(cycles(1, first_s=7200), segment=2))
    update = [each for each in events_of(log, HARBOUR) if each.event == 181]
    assert update == [Event(START_S + 7200, device, 181, 0) for device in (1, 2, 3)]


def test_a_crossing_walks_with_its_phase_and_clears_after_it():
    crossing = {"lane": ":A_w0_0", "to": ":A_c0_0"}
    assert HARBOUR.file is not None
    pier = HARBOUR.file.junctions[0].model_dump(mode="json", exclude_none=True)
    pier["links"] = [*pier["links"], crossing]
    pier["phases"] = [{"state": "GGrrG"}, {"state": "rrGGr"}]
    pier["intergreen_s"] = [[*row, None] for row in pier["intergreen_s"]] + [
        [None, None, 9, 8, None]
    ]
    network = network_of(NetworkFile.model_validate({"name": "walked", "junctions": [pier]}))
    states = ["rrGGr", "rryyr", "GGrrG", "GGrrr", "yyrrr", "rrGGr"]
    records = [lamps(10 * at, state) for at, state in enumerate(states)]
    walked = [each for each in events_of(logged(records), network) if 21 <= each.event <= 23]
    assert [(each.time_s - START_S, *each[2:]) for each in walked] == [
        *((20, 21, 1), (30, 22, 1), (39, 23, 1)),
    ]


def nema() -> NetworkFile:
    """Return a junction of phases 2, 6 and 5: the pairs 2+6 and 2+5, and 4 alone."""
    states = {"2+6: through": "GGrr", "2+5": "GrGr", "4": "rrrG"}
    lanes = [{"id": f"lane{at}", "capacity": 10} for at in range(4)]
    links = [{"lane": f"lane{at}", "to": f"out{at}"} for at in range(4)]
    phases = [{"state": state, "name": name} for name, state in states.items()]
    junction = {"id": "pier", "agent_index": 0, "phases": phases, "lanes": lanes, "links": links}
    return NetworkFile.model_validate({"name": "nema", "junctions": [junction]})


def test_phases_that_the_network_numbers_keep_their_numbers():
    numbering = Numbering(nema().junctions[0])
    assert numbering.phases == [(2, 6), (2, 5), (4,)]
    assert [each.phase for each in numbering.detectors] == [2, 6, 5, 4]
    assert HARBOUR.file is not None
    assert Numbering(HARBOUR.file.junctions[1]).phases == [(1,), (2,), (3,)]


def test_a_phase_of_both_pairs_stays_green_between_them():
    states = ["rrrG", "rrry", "GGrr", "Gyrr", "GrGr", "yryr", "rrrG"]
    records = [lamps(10 * at, state) for at, state in enumerate(states)]
    made = [each for each in events_of(logged(records), network_of(nema())) if each.event in (1, 7)]
    assert [(each.time_s - START_S, *each[2:]) for each in made] == [
        *((20, 1, 2), (20, 1, 6), (30, 7, 6), (40, 1, 5), (50, 7, 2), (50, 7, 5)),
        (60, 1, 4),
    ]


def test_a_log_without_states_and_a_network_without_them_are_sentences():
    with pytest.raises(ShadowLogError, match="no record has the state of the lamps"):
        events_of(logged([decision(0, 0)]), HARBOUR)
    bare = nema().model_dump(mode="json", exclude_none=True)
    for phase in bare["junctions"][0]["phases"]:
        del phase["state"]
    with pytest.raises(ShadowLogError, match="junction pier has no states of its phases"):
        events_of([], network_of(NetworkFile.model_validate(bare)))


def test_more_phases_than_a_log_can_name_are_refused():
    many = nema().model_dump(mode="json", exclude_none=True)
    many["junctions"][0]["phases"][2]["name"] = "17"
    with pytest.raises(ShadowLogError, match="a phase 17, event logs have 1 to 16"):
        Numbering(NetworkFile.model_validate(many).junctions[0])


def test_files_have_the_columns_of_atspm_and_explain_the_numbers(tmp_path):
    made = events_of(logged([*cycles(1), loop(61.25, "pier_n_0")]), HARBOUR)
    zone = timezone(timedelta(hours=2))
    for path in write_events(made, HARBOUR, tmp_path / "new", zone):
        assert path.exists()
    rows = {
        name: list(csv.reader((tmp_path / "new" / name).read_text().splitlines()))
        for name in (EVENTS, DETECTORS, PHASES)
    }
    assert rows[EVENTS][0] == ["TimeStamp", "DeviceId", "EventId", "Parameter"]
    assert rows[EVENTS][-1] == ["2001-09-09 04:01:01.250", "1", "82", "1"]
    assert rows[DETECTORS][:2] == [
        ["DeviceId", "Phase", "Parameter", "Function", "Junction", "Lane"],
        ["1", "1", "1", "Advance", "pier", "pier_n_0"],
    ]
    assert rows[PHASES][2] == ["1", "pier", "1", "2", "from the pier", "rrGG"]
