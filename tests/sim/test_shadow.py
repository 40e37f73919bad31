"""A simulated street can be recorded, its delay be estimated, and its events be exported."""

import json
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace

import pytest

from lab.shadow.estimate import edge_counts, estimate_saved, stretches
from lab.shadow.findings import Findings, Span, examine
from lab.shadow.lamps import Stages, phase_of
from lab.shadow.log import Entry, Segment
from lab.shadow.records import Record
from lab.shadow.simulated import simulate
from lab.sim.controllers import CONTROLS
from lab.sim.scenario import InvalidScenarioError
from lab.train.untrained import save_untrained
from models.networks.network import network_of
from models.signals.safety import Limits
from serve_app.cli import main as cli
from tests.sim.towns import TRIPS, Town

END_S = 900


@pytest.fixture(scope="module")
def records(town: Town) -> list[Record]:
    scenario = replace(town.scenario, end_s=END_S)
    return simulate(scenario, 1, CONTROLS["fixed time"](scenario))


def found(records: list[Record], town: Town) -> Findings:
    network = network_of(town.scenario.network)
    header = Segment(segment=1, reason="start", network=network.digest)
    entries = (Entry.model_construct(**dict(each)) for each in records)
    return examine([header, *entries], network, Limits())


def test_decisions_have_the_phases_that_the_lamps_show(town, records):
    stages = {each.id: Stages(each) for each in town.scenario.network.junctions}
    shown: dict[str, int | None] = {}
    decisions = 0
    for record in records:
        if record.state is not None:
            shown[record.junction] = stages[record.junction].shown(record.state)
        elif record.observation is not None:
            decisions += 1
            n_phases = len(stages[record.junction].greens)
            may_change = record.observation[n_phases]
            if shown[record.junction] is None:
                assert not may_change
            else:
                assert phase_of(record.observation, n_phases) == shown[record.junction]
    assert decisions == 4 * END_S // town.scenario.decision_s
    assert [each.time for each in records] == sorted(each.time for each in records)


def test_loops_count_every_vehicle_of_an_entry(town, records):
    findings = found(records, town)
    counts = edge_counts(findings, findings.spans[0], town.scenario)
    entries = {start: counts[start, 0] for start, _ in TRIPS}
    assert set(entries.values()) <= set(range(56, 61))  # one each ten seconds, of ten minutes


def test_every_vehicle_that_reaches_a_loop_leaves_it(town, records):
    switched = Counter((each.lane, each.occupied) for each in records if each.lane)
    for lane, _ in list(switched):
        assert 0 <= switched[lane, True] - switched[lane, False] <= 1


def test_the_delay_is_estimated_with_the_counts_of_all_seeds(town, records, tmp_path):
    save_untrained(tmp_path / "agent.th", network_of(town.scenario.network))
    findings = found(records, town)
    saved = estimate_saved(findings, town.scenario, tmp_path / "agent.th", 2, tmp_path)
    routes, mismatches = (
        [ET.parse(tmp_path / f"{seed}.rou{suffix}.xml").getroot() for seed in (1, 2)]
        for suffix in ("", ".mismatch")
    )
    geh = [float(edge.get("GEH", "inf")) for each in mismatches for edge in each.iter("edge")]
    assert saved.fits == sum(each < 5 for each in geh) >= 0.8 * saved.of
    assert saved.of == 2 * len(edge_counts(findings, findings.spans[0], town.scenario))
    assert saved.vehicles == round(sum(len(each.findall("vehicle")) for each in routes) / 2)
    assert saved.vehicles == pytest.approx(180, abs=30)
    assert saved.saved.mean == pytest.approx(saved.programs.mean - saved.policy.mean)
    assert (saved.begin_s, saved.end_s, saved.seeds) == (0, 900, 2)


def test_without_counts_there_is_no_estimate(town, records, tmp_path):
    decided = [each for each in records if each.lane is None]
    with pytest.raises(InvalidScenarioError, match="the log has no counts of working loops"):
        estimate_saved(found(decided, town), town.scenario, tmp_path / "a.th", 1, tmp_path)
    short = [each for each in records if each.time < 600]
    assert not stretches(found(short, town).spans[0])


def test_at_most_a_day_is_simulated():
    header = Segment(segment=1, reason="start", network="")
    assert list(stretches(Span(header, 100.0, 3600.0))) == [1, 2, 3]
    assert list(stretches(Span(header, 40.0, 3590.0))) == [0, 1, 2, 3]
    assert len(stretches(Span(header, 0.0, 10 * 86_400.0))) == 96


def test_the_commands_make_records_and_report_an_estimate(town, tmp_path, capsys):
    files = f"--network={town.network}", f"--net={town.net}"
    made = tmp_path / "records.jsonl"
    call = ["lab", "shadow", "simulate", *files, f"--routes={town.routes}", f"--end={END_S}"]
    assert cli.main([*call, f"--output={made}"]) == 0
    times = {json.loads(line)["time"] for line in made.read_text().splitlines()}
    assert max(times) < END_S
    save_untrained(tmp_path / "agent.th", network_of(town.scenario.network))
    policy = f"--policy={tmp_path / 'agent.th'}"
    assert cli.main(["lab", "shadow", "report", str(made), *files, policy, "--seeds=1"]) == 0
    assert "s per vehicle less with the policy" in capsys.readouterr().out
    assert cli.main([*call, "--controller=best", f"--output={made}"]) == 1
    assert "--controller must be one of: fixed time," in capsys.readouterr().err
