"""The detectors of a network file as SUMO's induction loops, and what is estimated from them."""

from __future__ import annotations

from collections.abc import Mapping

import libsumo

from lab.sim.signal import Signal
from models.networks.form import NetworkFile
from models.signals.detection import JunctionDetection, Reading


class Loops:
    """Measures with SUMO's induction loops, one for each lane of a detector.

    Attributes:
        elements: of a SUMO additional file, in XML.
        standing, vehicles: by lane, what was estimated at the end of the last interval.
    """

    def __init__(self, network: NetworkFile) -> None:
        self._junctions = {each.id: (each, JunctionDetection(each)) for each in network.junctions}
        self._memories = {name: each.start for name, (_, each) in self._junctions.items()}
        self._loops: dict[tuple[str, str], list[str]] = {}
        elements: list[str] = []
        for junction in network.junctions:
            for detector in junction.detectors:
                loops = self._loops[junction.id, detector.id] = []
                for lane in detector.lanes:
                    loops.append(f"greenwave.loop.{len(elements)}")
                    elements.append(
                        f'<inductionLoop id="{loops[-1]}" lane="{lane}" file="NUL" period="3600"'
                        f' pos="{-detector.distance_m - detector.length_m}"'
                        f' length="{detector.length_m}"/>'
                    )
        self.elements = tuple(elements)
        self.standing: dict[str, float] = {}
        self.vehicles: dict[str, float] = {}
        self._begin()

    def _begin(self) -> None:
        self._covered_s = dict.fromkeys(self._loops, 0.0)
        self._counts = dict.fromkeys(self._loops, 0)

    def look(self) -> None:
        """See what passed in the last step of the simulation."""
        step_s = libsumo.simulation.getDeltaT()
        now_s = libsumo.simulation.getTime()
        since_s = now_s - step_s
        for detector, loops in self._loops.items():
            covered_s = 0.0
            for loop in loops:
                on_loop_s = 0.0
                for _, _, entered_s, left_s, _ in libsumo.inductionloop.getVehicleData(loop):
                    self._counts[detector] += left_s > since_s  # a moment between steps is in both
                    until_s = now_s if left_s < 0 else left_s
                    on_loop_s += until_s - max(entered_s, since_s)
                covered_s = max(covered_s, on_loop_s)
            self._covered_s[detector] += covered_s

    def measure(self, signals: Mapping[str, Signal], interval_s: float) -> None:
        """Estimate the vehicles on the lanes from what was seen since the last call."""
        readings: dict[str, dict[str, Reading]] = {name: {} for name in self._junctions}
        for (name, detector), covered_s in self._covered_s.items():
            occupancy = min(1.0, covered_s / interval_s)
            readings[name][detector] = Reading(occupancy, self._counts[name, detector])
        for name, (junction, detection) in self._junctions.items():
            signal = signals[name]
            estimate = detection(
                self._memories[name], readings[name], signal.phase, signal.green_s, interval_s
            )
            self._memories[name] = estimate.memory
            lanes = [lane.id for lane in junction.lanes]
            self.standing |= zip(lanes, estimate.standing, strict=True)
            self.vehicles |= zip(lanes, estimate.vehicles, strict=True)
        self._begin()
