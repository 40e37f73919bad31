"""How far back a signal looks: nets are often cut into lanes too short for a vehicle."""

from __future__ import annotations

from models.sumo.sumo import SumoNet

DETECTED_M = 50.0  # some cars that stand; on a stub of a metre nobody ever does


def lanes_behind(net: SumoNet, lane: str) -> dict[str, float]:
    """Return the lanes before a stop line that is nearer than DETECTED_M, and their shares.

    A lane that leads to several shares its vehicles evenly among them. A lane from which a signal
    lets vehicles go belongs to that signal.
    """
    behind: dict[str, float] = {}
    reached = [(lane, 1.0, net.lanes[lane].length_m)]
    while reached:
        here, share, length_m = reached.pop()
        if length_m >= DETECTED_M:
            continue
        for before in sorted(net.behind.get(here, ())):
            if before in net.lanes and before != lane and before not in behind:
                behind[before] = share / len(net.ahead[before])
                onwards_m = length_m + net.lanes[before].length_m
                reached.append((before, behind[before], onwards_m))
    return behind
