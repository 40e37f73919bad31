"""What a shadow log shows: agreement, refusals of the safety layer, and the detectors' health."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.shadow.lamps import Lamps, phase_of
from lab.shadow.log import Entry, Segment
from models.networks.network import Network, lane_names
from models.signals.diagnosis import FAULTS, Fault, JunctionDiagnosis, read_diagnoses
from models.signals.safety import Limits, SafetyLayer, read_layers

POLICY = "policy"
COUNTED_S = 900  # the stretches in which vehicles are counted


class Refusal(NamedTuple):
    """A rule of the safety layer that recommendations of a junction broke."""

    junction: str
    rule: str


class LaneFault(NamedTuple):
    """A fault of a lane's detector."""

    junction: str
    lane: str
    fault: Fault


@dataclass
class Span:
    """A segment, and the time from its first to its last record."""

    segment: Segment
    begin_s: float = 0.0
    end_s: float = 0.0
    records: int = 0


@dataclass
class Findings:
    """Counts of a log.

    Attributes:
        decisions: by answer: ``policy``, or why there is no recommendation.
        compared: by junction, the decisions at which the controller could change; ``agreed`` counts
            those at which it did what the policy asked.
        judged: recommendations that the safety layer was asked about.
        not_judged: why it was asked about none; empty if it was.
        refusals: by junction and rule.
        readings: decisions by junction.
        faults: by detector and fault, the decisions with it; ``first`` has the time of the first.
        blind: by junction, the decisions at which all its detectors had failed.
        not_diagnosed: why detectors were not diagnosed; empty if they were.
        vehicles: by segment, lane and stretch of COUNTED_S, those that its loop detected.
    """

    spans: list[Span] = field(default_factory=list)
    decisions: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    not_judged: str = ""
    refusals: Counter[Refusal] = field(default_factory=Counter)
    readings: Counter[str] = field(default_factory=Counter)
    faults: Counter[LaneFault] = field(default_factory=Counter)
    first: dict[LaneFault, float] = field(default_factory=dict)
    blind: Counter[str] = field(default_factory=Counter)
    not_diagnosed: str = ""
    vehicles: defaultdict[int, Counter[tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(Counter)
    )

    @property
    def is_blind(self) -> bool:
        """Whether all detectors of all junctions had failed at most decisions."""
        return bool(self.readings) and all(
            2 * self.blind[name] > decisions for name, decisions in self.readings.items()
        )

    def failed_lanes(self) -> set[str]:
        """Return the lanes whose detectors had a fault at more than half of the decisions."""
        decisions: Counter[tuple[str, str]] = Counter()
        for each, number in self.faults.items():
            decisions[each.junction, each.lane] += number
        return {
            lane
            for (junction, lane), number in decisions.items()
            if 2 * number > self.readings[junction]
        }


def examine(log: Iterable[Segment | Entry], network: Network, limits: Limits) -> Findings:
    """Return what a log shows.

    Every segment begins anew: nothing is known of the lamps, and the detectors' memory is empty.

    Args:
        limits: of the safety layer.
    """
    findings = Findings()
    examiner = _Examiner(network, limits, findings)
    for each in log:
        if isinstance(each, Segment):
            findings.spans.append(Span(each))
            examiner.begin()
        else:
            examiner.take(each)
    return findings


class _Examiner:
    def __init__(self, network: Network, limits: Limits, findings: Findings) -> None:
        self._network, self._findings = network, findings
        self._lanes = lane_names(network)
        self._layers: dict[str, SafetyLayer] = {}
        self._diagnoses: dict[str, JunctionDiagnosis] = {}
        try:
            self._layers = read_layers(limits, network)
        except ValueError as error:
            findings.not_judged = str(error)
        try:
            self._diagnoses = dict(zip(network.ids, read_diagnoses(network), strict=True))
        except ValueError as error:
            findings.not_diagnosed = str(error)
        self.begin()

    def begin(self) -> None:
        file = self._network.file
        assert file is not None
        self._lamps = {each.id: Lamps(each) for each in file.junctions}
        self._memories = {name: [0.0] * each.size for name, each in self._diagnoses.items()}
        self._before: dict[str, int] = {}  # recommendations whose outcome is the next decision

    def take(self, entry: Entry) -> None:
        span = self._findings.spans[-1]
        span.begin_s = span.begin_s if span.records else entry.time
        span.end_s = max(span.end_s, entry.time)
        span.records += 1
        self._lamps[entry.junction].see(entry)
        if entry.observation is not None:
            self._decide(entry, entry.observation)
        elif entry.lane is not None and entry.occupied:
            stretch = int(entry.time // COUNTED_S)
            self._findings.vehicles[span.segment.segment][entry.lane, stretch] += 1

    def _decide(self, entry: Entry, observation: tuple[float, ...]) -> None:
        found, name = self._findings, entry.junction
        n_phases = self._network.junctions[name].n_phases
        asked = self._before.pop(name, None)
        if asked is not None:
            found.compared[name] += 1
            found.agreed[name] += phase_of(observation, n_phases) == asked
        found.readings[name] += 1
        self._diagnose(entry, observation)
        if entry.answer is None:
            return
        found.decisions[entry.answer] += 1
        if entry.recommended is None:
            return
        if observation[n_phases]:  # the controller may change
            self._before[name] = entry.recommended
        self._judge(entry, entry.recommended)

    def _judge(self, entry: Entry, asked: int) -> None:
        layer = self._layers.get(entry.junction)
        if layer is None:
            return
        self._findings.judged += 1
        rule = "no_such_phase"
        if asked < len(layer.phases):
            rule = layer.decide(self._lamps[entry.junction].shown(entry), asked).rule
        if rule != "none":
            self._findings.refusals[Refusal(entry.junction, rule)] += 1

    def _diagnose(self, entry: Entry, observation: tuple[float, ...]) -> None:
        found, name = self._findings, entry.junction
        diagnosis = self._diagnoses.get(name)
        if diagnosis is None:
            return
        n_calls = self._network.junctions[name].n_calls
        observed = observation[: len(observation) - n_calls]
        self._memories[name], _, faults = diagnosis(self._memories[name], observed)
        for lane, fault in zip(self._lanes[name], faults, strict=True):
            if fault:
                failed = LaneFault(name, lane, FAULTS[fault - 1])
                found.faults[failed] += 1
                found.first.setdefault(failed, entry.time)
        found.blind[name] += all(faults)
