"""Diagnosis of broken detectors: finds readings that cannot be, and replaces them by estimates.

A pure function of a junction's observation and of what is remembered of the earlier ones. It reads
no clock: time is counted in requests and in traffic. So a simulation may run at any speed, clocks
may jump, and replicas need not agree about time. The diagnoses follow those of NTCIP 1202 (no
activity, maximum presence, erratic counts):

- No activity: a queue forms where it is red. A lane that reads zero through red in which an average
  lane of the junction would have had many arrivals is not seen.
- Stuck: a queue changes in its green. One of the same length through much green is not a queue. A
  long one is found sooner, because it draws more green that others need.
- Erratic: a queue grows no faster than vehicles arrive. One that often leaps is not a queue.
- Impossible: a reading below zero, or far above the lane's capacity.
- Frozen: some detector of a junction changes within a quarter of an hour; here none does. While
  all read zero, the junction may be empty, and has twice as long.

A failed detector's reading is replaced by the queue to be expected: it grows in red with the
traffic that the junction's working detectors see, and is discharged in green. It is at least the
mean of the working detectors with the same green, or else with a part of it.

A lane that reads zero through a long red is assumed to have a queue, too, before it is known
whether its detector has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from models.networks.form import DetectorLimits, JunctionEntry
from models.networks.network import Network

Fault = Literal["no_activity", "stuck", "erratic", "impossible", "frozen"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
NO_ACTIVITY, STUCK, ERRATIC, IMPOSSIBLE, FROZEN = range(1, 6)

HIGHEST = 2.0  # share of a lane's capacity; the capacities of network files are approximate
FORGETS = 1 / 60  # leaps per request
TYPICAL = 0.1  # arrivals per request and red lane, before any are seen
LEARNS = 1 / 20  # of the traffic, by each reading in red
DISCHARGED = 1.5  # vehicles per request in green, carefully low
AT_LIMIT = 21  # vehicles of a lane in the time of its limit of no activity, carefully high
GROWS = 0.01  # share of a lane's capacity, per request in a red that is too long

_HEAD = 3  # the phase from 1 on, requests without any change, and the traffic
_PER_LANE = 6  # reading, requests in red, expected queue, evidence, leaps and fault


class Diagnosed(NamedTuple):
    """The diagnosis of one observation.

    Attributes:
        memory: to be passed with the junction's next observation.
        observation: with estimates in place of what failed detectors read.
        faults: for each lane 0, or the place of its fault in FAULTS, from 1 on.
    """

    memory: list[float]
    observation: list[float]
    faults: list[int]


class _Lane(NamedTuple):
    """What is known of a lane.

    Attributes:
        green: by phase from 1 on, whether it is green; False at 0, where no phase is known.
        share: of the traffic; 1 for an average lane.
        no_activity, stuck, erratic, forgiven: limits; infinite for diagnoses that are off.
        leap: rise of the reading that counts as one.
        same, some: other lanes that are green in the same phases, and in some of them.
    """

    green: tuple[bool, ...]
    capacity: float
    share: float
    no_activity: float
    stuck: float
    erratic: float
    leap: float
    forgiven: float
    same: tuple[int, ...]
    some: tuple[int, ...]


class JunctionDiagnosis:
    """Diagnoses the detectors of one junction.

    Attributes:
        size: numbers in its memory; zeros before the first observation.

    Raises:
        ValueError: the network file does not say when the lanes are green.
    """

    def __init__(self, junction: JunctionEntry, common: DetectorLimits) -> None:
        self._n_phases = len(junction.phases)
        self._frozen = common.frozen or float("inf")
        self._recall = common.recall or float("inf")
        green = junction.phases_of_lanes()
        self._lanes = []
        for n, lane in enumerate(junction.lanes):
            own = {} if lane.detector is None else lane.detector.model_dump(exclude_unset=True)
            limits = common.model_copy(update=own)
            others = [m for m in range(len(green)) if m != n]
            self._lanes.append(
                _Lane(
                    (False, *(phase in green[n] for phase in range(self._n_phases))),
                    lane.capacity,
                    AT_LIMIT / limits.no_activity if limits.no_activity else 1.0,
                    limits.no_activity or float("inf"),
                    limits.stuck or float("inf"),
                    limits.erratic or float("inf"),
                    limits.jump / lane.capacity,
                    limits.forgiven,
                    tuple(m for m in others if green[m] == green[n]),
                    tuple(m for m in others if green[m] & green[n]),
                )
            )
        self.size = memory_size(len(self._lanes))

    def __call__(self, memory: Sequence[float], observation: Sequence[float]) -> Diagnosed:
        """Diagnose an observation.

        Args:
            memory: of the observations before.
            observation: of the junction's length; it is not written into.
        """
        before, unchanged, traffic = memory[:_HEAD]
        head = self._n_phases + 1
        phase = _phase_of(observation[: head - 1])
        readings = observation[head:]
        begun, stays = before > 0, phase == before
        if not begun:
            traffic = TYPICAL
        n_changes = n_red = n_arrived = 0
        kept: list[float] = []
        faults: list[int] = []
        assumed: list[float] = []
        at = _HEAD
        for lane, reading in zip(self._lanes, readings, strict=True):
            last, red, queue, evidence, leaps, fault = memory[at : at + _PER_LANE]
            at += _PER_LANE
            rise = reading - last if begun else 0.0
            is_green = lane.green[phase]
            is_red = phase > 0 and not is_green
            red = 0.0 if is_green else red + 1
            arrived = queue + traffic * lane.share
            queue = max(0.0, queue - DISCHARGED) if is_green else min(lane.capacity, arrived)
            possible = 0 <= reading <= HIGHEST
            leap = rise > lane.leap
            leaps = max(0.0, leaps - FORGETS) + leap
            n_changes += rise != 0
            if fault:  # evidence is of repair
                evidence = evidence + (rise != 0) if possible and not leap else 0.0
                if evidence >= lane.forgiven:
                    fault = evidence = 0.0
            else:
                if is_red and begun:
                    n_red += 1
                    n_arrived += rise > 0
                if rise:
                    evidence = 0.0
                elif reading:
                    evidence += reading if is_green and stays else 0.0
                elif is_red:
                    evidence += traffic
                fault = _fault(lane, reading, evidence, leaps, possible)
            if fault:
                assumed.append(queue / lane.capacity)
            elif reading:
                assumed.append(reading)
            else:  # its queue may be one that is not seen
                overdue = red - self._recall * (1 - evidence / lane.no_activity)
                assumed.append(min(1.0, GROWS * max(0.0, overdue)))
            kept += (reading, red, queue, evidence, leaps, fault)
            faults.append(int(fault))
        # a junction whose detectors all read zero may be empty
        unchanged = 0.0 if n_changes else unchanged + (1.0 if any(readings) else 0.5)
        traffic += (n_arrived - traffic * n_red) * LEARNS
        if unchanged >= self._frozen:
            faults = [fault or FROZEN for fault in faults]
        for n, fault in enumerate(faults):
            if fault:
                assumed[n] = self._estimate(n, readings, faults, assumed[n])
        return Diagnosed(
            [phase, unchanged, traffic, *kept], [*observation[:head], *assumed], faults
        )

    def _estimate(
        self, lane: int, readings: Sequence[float], faults: Sequence[int], expected: float
    ) -> float:
        """Return the expected queue, or the mean of lanes with the same green if that is longer.

        Without such lanes, it is the mean of those with a part of its green.
        """
        for others in (self._lanes[lane].same, self._lanes[lane].some):
            like = [readings[each] for each in others if not faults[each]]
            if like:
                return max(expected, sum(like) / len(like))
        return expected


def memory_size(n_lanes: int) -> int:
    """Return the numbers that are remembered of a junction."""
    return _HEAD + _PER_LANE * n_lanes


def are_memories(memories: NDArray[np.float32]) -> bool:
    """Return whether a diagnosis could have left these rows of ``memory_size`` numbers, or none."""
    faults = memories[:, _HEAD + _PER_LANE - 1 :: _PER_LANE]
    return bool(np.isin(faults, range(len(FAULTS) + 1)).all() and (abs(memories) < 1e9).all())


def _phase_of(shown: Sequence[float]) -> int:
    """Return the number of the phase from 1 on, 0 if the observation names no single one."""
    return shown.index(1) + 1 if sum(shown) == 1 and 1 in shown else 0


def _fault(lane: _Lane, reading: float, evidence: float, leaps: float, possible: bool) -> int:
    if not possible:
        return IMPOSSIBLE
    if leaps >= lane.erratic:
        return ERRATIC
    if reading == 0:
        return NO_ACTIVITY if evidence >= lane.no_activity else 0
    return STUCK if evidence >= lane.stuck else 0


def failed_lanes(lanes: Sequence[str], faults: Sequence[int]) -> dict[str, Fault]:
    """Return the name of each fault, by lane."""
    return {lane: FAULTS[fault - 1] for lane, fault in zip(lanes, faults, strict=True) if fault}


def read_diagnoses(network: Network) -> list[JunctionDiagnosis]:
    """Return the diagnosis of each junction, in the order of the agents.

    Raises:
        ValueError: the network file does not say when the lanes are green.
    """
    if network.file is None:
        raise ValueError(f"the network {network.name} was read without its signals")
    junctions = sorted(network.file.junctions, key=lambda each: each.agent_index)
    return [JunctionDiagnosis(each, network.file.detectors) for each in junctions]
