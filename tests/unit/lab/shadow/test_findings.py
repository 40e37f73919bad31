"""A log shows agreement, refusals of the safety layer, and failed detectors."""

from collections.abc import Iterable
from itertools import chain

import pytest

from lab.shadow.findings import Findings, LaneFault, Refusal, examine
from lab.shadow.log import Entry, Segment
from lab.shadow.report import as_text, sections
from models.networks.form import NetworkFile
from models.networks.network import Network, network_of
from models.signals.safety import Limits
from tests.unit.lab.shadow.street import (
    HARBOUR,
    LANDWARD,
    PIER,
    QUAY,
    START_S,
    YELLOW,
    decision,
    lamps,
    logged,
    loop,
)

LIMITS = Limits()


def found(log: Iterable[Segment | Entry], network: Network = HARBOUR) -> Findings:
    return examine(log, network, LIMITS)


def text(findings: Findings) -> str:
    return as_text(sections(findings, None))


def without(member: str) -> Network:
    """Return the harbour without a member of its junctions."""
    assert HARBOUR.file is not None
    file = HARBOUR.file.model_dump(mode="json", exclude_none=True)
    for junction in file["junctions"]:
        junction.pop(member, None)
    return network_of(NetworkFile.model_validate(file))


def test_a_recommendation_is_compared_with_the_next_decision_where_it_could_change():
    first = decision(0, 0), decision(5, 0, may_change=False)
    findings = found(logged([*first, decision(10, 1), decision(15, 1), decision(20, 0)], 0))
    assert (findings.compared, findings.agreed) == ({PIER: 3}, {PIER: 2})
    assert "at 66.7% of the 3 decisions at which it could change" in text(findings)


def test_nothing_is_compared_across_segments():
    log = chain(logged([decision(0, 0)], 0), logged([decision(9, 1)], 0, segment=2))
    findings = found(log)
    assert not findings.compared
    assert "No recommendation was made at which the controller could change" in text(findings)


def test_decisions_without_a_recommendation_are_counted_by_reason():
    entries = list(logged([decision(0, 0), decision(5, 0)], 0))
    away = {"recommended": None, "answer": "the gateway did not answer"}
    entries[1] = entries[1].model_copy(update=away)
    findings = found(entries)
    assert findings.decisions == {"policy": 1, "the gateway did not answer": 1}
    assert "1 decisions without one: the gateway did not answer." in text(findings)


def test_the_safety_layer_refuses_by_what_the_lamps_showed():
    early = [lamps(0, QUAY), decision(3, 0), decision(40, 0)]
    changing = [lamps(45, YELLOW), decision(46, 1), lamps(50, LANDWARD), decision(90, 1)]
    findings = found(logged([*early, *changing], recommended=1))
    assert (findings.judged, findings.refusals) == (4, {Refusal(PIER, "minimum_green"): 1})
    back = found(logged([*early, *changing], recommended=0))
    assert back.refusals == {Refusal(PIER, "change_under_way"): 1}
    late = found(logged([lamps(0, QUAY), decision(130, 0)], recommended=0))
    assert late.refusals == {Refusal(PIER, "maximum_red"): 1}
    assert found(logged([decision(0, 0)], recommended=5)).refusals == {
        Refusal(PIER, "no_such_phase"): 1
    }


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        ("intergreen_s", "not asked: junction pier of the network harbour has no intergreen_s."),
        ("links", "The detectors were not diagnosed: junction pier has no states"),
    ],
)
def test_a_network_without_what_is_needed_is_one_sentence(member, sentence):
    network = without(member)
    report = text(found(logged([decision(0, 0)], 0), network))
    assert report.count(sentence) == 1


def test_a_stuck_detector_is_found_with_its_time_and_share():
    shown = [decision(5.0 * at, 0, 0.9, 0.1 * (at % 3)) for at in range(40)]
    findings = found(logged(shown, recommended=0))
    stuck = LaneFault(PIER, "pier_n_0", "stuck")
    assert set(findings.faults) == {stuck}
    assert START_S < findings.first[stuck] < START_S + 100
    assert findings.failed_lanes() == {"pier_n_0"}
    assert not findings.is_blind


def test_all_detectors_failed_at_once_is_the_first_sentence():
    shown = [decision(5.0 * at, at // 6 % 2) for at in range(1000)]  # every reading is 0
    findings = found(logged(shown, recommended=0))
    assert findings.is_blind
    report = text(findings).splitlines()
    assert report[2].startswith("All detectors of all junctions have failed, at most decisions")
    (sentence,) = [line for line in report if line.startswith("All detectors of pier")]
    assert sentence.endswith("of its 1000 decisions: recommendations there use no reading.")


def test_vehicles_are_counted_by_segment_lane_and_quarter_of_an_hour():
    loops = [loop(each, "pier_n_0", on) for each in (1, 2, 901) for on in (True, False)]
    counted = found(logged(loops)).vehicles[1]
    stretch = int(START_S // 900)
    assert counted == {("pier_n_0", stretch): 2, ("pier_n_0", stretch + 1): 1}


def test_segments_are_listed_with_their_reasons():
    later = Segment(segment=2, reason="the time jumps back by 60 s", network=HARBOUR.digest)
    findings = found([*logged([decision(0, 0)], 0), later])
    assert [span.records for span in findings.spans] == [1, 0]
    assert "the time jumps back by 60 s" in text(findings)
