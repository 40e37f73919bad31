"""From detectors to the vehicles of each lane: what a junction's observation needs.

A pure function of the readings of one interval and of what is remembered of the earlier ones:

- Balance: vehicles that have passed the advance detector, less those that have passed the stop line
  (input and output, as in Webster and Cobbe, Traffic Signals, 1966, and in Sharma, Bullock and
  Bonneson, Transportation Research Record 2035, 2007). It is never negative.
- Reset, since miscounts and changes of lane add up: there is no queue where the stop line is empty
  in red, or is passed in green at longer headways than those of a discharging queue.
- Queues beyond the advance detector are not counted (Liu et al., Transportation Research Part C
  17, 2009). While vehicles stand on the detector, the queue grows by the lane's mean flow.
- Density upstream of the advance detector: occupancy / (length of a vehicle + length of the
  detector) (Traffic Detector Handbook, FHWA-HRT-06-108, 2006), while traffic moves freely.
- Without counts in advance, the mean flow arrives; without counts at the stop line, the saturation
  flow departs in green: 1,900 vehicles an hour (Highway Capacity Manual, 2016). So the queue of a
  lane without any reading grows in red until the lane is served.
- A detector of several lanes: their mean flows share its arrivals, and the queues of those with
  green its departures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from models.networks.form import VEHICLE_SPACE_M, Detector, JunctionEntry

VEHICLE_M = 5.0  # a passenger car
SPEED_MPS = 13.9  # of vehicles on free roads
SATURATION_PER_S = 1900 / 3600
STARTS_PER_S = 1.0  # vehicles of a queue that begin to move in green
FREE_HEADWAY_S = 3.0  # longer than between vehicles of a queue
COVERED = 0.8  # share of the time on a detector that says that a queue stands there
FREE = 0.3  # share that a moving queue exceeds
TYPICAL_PER_S = 0.1  # flow of a lane before it is known
MEMORY_S = 300.0  # of mean flow and density
LONGEST_S = 60.0  # interval
MOST = 1000  # vehicles that pass a detector in an interval


class Reading(NamedTuple):
    """What a detector measured in an interval.

    Attributes:
        occupancy: share of the interval in which a vehicle was on it, 0 to 1.
        vehicle_count: vehicles that have passed it; None if it only reports presence.
    """

    occupancy: float
    vehicle_count: float | None = None


class LaneMemory(NamedTuple):
    """What is remembered of a lane.

    Attributes:
        vehicles: between the stop line and the advance detector, or the end of a longer queue.
        per_s: mean flow.
        per_m: mean density of vehicles that move freely.
        green_s: how long it has had green, 0 in red.
        discharged: vehicles since this green began.
    """

    vehicles: float = 0.0
    per_s: float = TYPICAL_PER_S
    per_m: float = TYPICAL_PER_S / SPEED_MPS
    green_s: float = 0.0
    discharged: float = 0.0


class Estimate(NamedTuple):
    """The vehicles of a junction, for each lane in the order of the observation.

    Attributes:
        memory: to be passed with the junction's next readings.
        standing: vehicles in queues; the observation of policies that count those that stand.
        vehicles: all of the lane; the observation of policies that count all.
    """

    memory: tuple[LaneMemory, ...]
    standing: list[float]
    vehicles: list[float]


class JunctionDetection:
    """Estimates the vehicles on the lanes of one junction.

    Attributes:
        start: memory before the first readings.

    Raises:
        ValueError: the network file does not say when the lanes are green.
    """

    def __init__(self, junction: JunctionEntry) -> None:
        self._n_phases = len(junction.phases)
        self._green = junction.phases_of_lanes()
        self._capacities = [lane.capacity for lane in junction.lanes]
        numbers = {lane.id: number for number, lane in enumerate(junction.lanes)}
        self._detectors = {
            each.id: (each, [numbers[lane] for lane in each.lanes]) for each in junction.detectors
        }
        self.start = (LaneMemory(),) * len(numbers)

    def __call__(
        self,
        memory: Sequence[LaneMemory],
        readings: Mapping[str, Reading],
        phase: int,
        green_s: float,
        interval_s: float,
    ) -> Estimate:
        """Estimate the vehicles at the end of an interval.

        Args:
            memory: of the interval before.
            readings: by detector; one that is missing counts as failed.
            phase: the green phase, or during a change the next one.
            green_s: how long it has been green; negative before, as in the gateway's ``shown``.

        Raises:
            ValueError: an unknown detector or phase, or a value that cannot be.
        """
        self._check(readings, phase, interval_s)
        greens = [
            _green_s(before.green_s, phase in green, green_s, interval_s)
            for before, green in zip(memory, self._green, strict=True)
        ]
        advance, stop_line = self._by_lane(memory, readings, greens, interval_s)
        lanes = [
            _balance(lane, capacity, greens[n], interval_s, advance.get(n), stop_line.get(n))
            for n, (lane, capacity) in enumerate(zip(memory, self._capacities, strict=True))
        ]
        kept, standing, vehicles = zip(*lanes, strict=True)
        return Estimate(kept, list(standing), list(vehicles))

    def _check(self, readings: Mapping[str, Reading], phase: int, interval_s: float) -> None:
        if not 0 <= phase < self._n_phases:
            raise ValueError(f"phase {phase} is not one of the {self._n_phases} phases")
        if not 0 < interval_s <= LONGEST_S:
            raise ValueError(f"the interval is {interval_s} s, not above 0 and up to {LONGEST_S} s")
        for name, reading in readings.items():
            if name not in self._detectors:
                raise ValueError(f"the network file does not declare detector {name!r}")
            if not 0 <= reading.occupancy <= 1:
                raise ValueError(
                    f"detector {name!r} reads occupancy {reading.occupancy}, not 0 to 1"
                )
            if reading.vehicle_count is not None and not 0 <= reading.vehicle_count <= MOST:
                raise ValueError(
                    f"detector {name!r} reads count {reading.vehicle_count}, not 0 to {MOST}"
                )

    def _by_lane(
        self,
        memory: Sequence[LaneMemory],
        readings: Mapping[str, Reading],
        greens: Sequence[float],
        interval_s: float,
    ) -> tuple[dict[int, _Seen], dict[int, _Seen]]:
        """Return by lane what its advance and its stop-line detector report of it."""
        advance: dict[int, _Seen] = {}
        stop_line: dict[int, _Seen] = {}
        for name, reading in readings.items():
            device, lanes = self._detectors[name]
            if device.kind == "advance":
                of_kind, weights = advance, {n: memory[n].per_s for n in lanes}
                # one of the lanes is covered, probably that with the longest queue
                longest = max(lanes, key=lambda n: memory[n].vehicles)
                known = lanes if reading.occupancy < FREE else [longest]
            else:
                moving = [n for n in lanes if greens[n]] or lanes
                of_kind = stop_line
                weights = {n: memory[n].vehicles + memory[n].per_s * interval_s for n in moving}
                # a vehicle that waits in red hides whether another lane is empty
                known = lanes if len(moving) == len(lanes) or not reading.occupancy else []
            counts = _shared(reading.vehicle_count, weights)
            for n in lanes:
                of_kind[n] = _Seen(
                    device,
                    reading.occupancy if n in known else None,
                    None if reading.vehicle_count is None else counts.get(n, 0.0),
                    reading.vehicle_count,
                )
        return advance, stop_line


class _Seen(NamedTuple):
    """What a detector reports of one of its lanes.

    Attributes:
        occupancy: None if it is not known of this lane, as others have the same detector.
        passed: vehicles of this lane; None without counts, as is the total.
        total: of all its lanes.
    """

    detector: Detector
    occupancy: float | None
    passed: float | None
    total: float | None

    @property
    def share(self) -> float:
        return 1 / len(self.detector.lanes)


def _shared(count: float | None, weights: Mapping[int, float]) -> dict[int, float]:
    """Divide a count by weights, evenly if all are zero."""
    if count is None:
        return {}
    total = sum(weights.values())
    return {
        n: count * (weight / total if total else 1 / len(weights)) for n, weight in weights.items()
    }


def _green_s(before_s: float, is_green: bool, phase_s: float, interval_s: float) -> float:
    """Return how long a lane has had green; it may keep it through a change of phase."""
    if not is_green:
        return 0.0
    return before_s + interval_s if before_s > 0 else max(0.0, phase_s)


def _waits(stop_line: _Seen, green_s: float, interval_s: float) -> bool | None:
    """Return whether there is a queue at the stop line, None if that is not known."""
    occupancy, count = stop_line.occupancy, stop_line.total
    if not green_s:
        return None if occupancy is None else occupancy > 0
    if green_s < interval_s or (occupancy is None and count is None):
        return None
    if count is None:
        return occupancy is not None and occupancy >= FREE
    return count * FREE_HEADWAY_S > interval_s or (occupancy or 0) >= COVERED


def _balance(
    before: LaneMemory,
    capacity: float,
    green_s: float,
    interval_s: float,
    advance: _Seen | None,
    stop_line: _Seen | None,
) -> tuple[LaneMemory, float, float]:
    """Return a lane's memory, its standing vehicles and all of its vehicles."""
    vehicles, per_s, per_m = before.vehicles, before.per_s, before.per_m
    learns = min(1.0, interval_s / MEMORY_S)
    came, moving, room = per_s * interval_s, 0.0, 0.0
    if advance is None:
        per_m = per_s / SPEED_MPS
    else:
        device, occupancy = advance.detector, advance.occupancy
        room = min(capacity, device.distance_m / VEHICLE_SPACE_M)
        is_covered = occupancy is not None and occupancy >= COVERED
        if is_covered:
            vehicles = max(vehicles, room)
        elif occupancy is not None and occupancy < FREE:
            vehicles = min(vehicles, room)
            measured = occupancy * advance.share / (VEHICLE_M + device.length_m)
            per_m += (measured - per_m) * learns
        if advance.passed is not None and not is_covered and vehicles <= room:
            came = advance.passed
            moving = came * min(1.0, device.distance_m / (SPEED_MPS * interval_s))

    green_in_s = min(interval_s, green_s)
    left = min(vehicles + came, SATURATION_PER_S * green_in_s)
    if stop_line is not None and stop_line.passed is not None:
        left = stop_line.passed
    vehicles = max(0.0, vehicles + came - left)
    least = 0.0
    if stop_line is not None:
        waits = _waits(stop_line, green_in_s, interval_s)
        if waits:
            least = stop_line.share
        elif waits is False:
            vehicles = min(vehicles, moving)
    vehicles = min(capacity, max(vehicles, least))

    flows = [each.passed for each in (stop_line, advance) if each and each.passed is not None]
    if flows:
        per_s += (flows[0] / interval_s - per_s) * learns
    discharged = 0.0
    standing = max(least, vehicles - moving)
    if green_s:
        discharged = left + (before.discharged if before.green_s else 0.0)
        if advance is not None:  # otherwise the queue's end is too uncertain
            standing = max(0.0, standing - max(0.0, STARTS_PER_S * green_s - discharged))
    upstream_m = max(0.0, capacity - max(room, vehicles)) * VEHICLE_SPACE_M
    memory = LaneMemory(vehicles, per_s, per_m, green_s, discharged)
    return memory, standing, min(capacity, vehicles + per_m * upstream_m)
