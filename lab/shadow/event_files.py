"""Files of an event log, as the package ``atspm`` and people read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from pathlib import Path

from lab.shadow.events import ADVANCE, Event, Numbering
from lab.tables import write_csv
from models.networks.network import Network

EVENTS, DETECTORS, PHASES = "events.csv", "detectors.csv", "phases.csv"


def write_events(
    events: Sequence[Event], network: Network, folder: Path, zone: tzinfo
) -> tuple[Path, ...]:
    """Write the events, the detectors for ``detector_config``, and what devices and phases mean.

    Args:
        zone: of the times, which have none in the file.

    Raises:
        OSError: the folder cannot be written.
    """
    assert network.file is not None
    numberings = [Numbering(each) for each in network.file.junctions]
    tables: dict[str, tuple[str, Iterable[Sequence[object]]]] = {
        EVENTS: (
            "TimeStamp DeviceId EventId Parameter",
            ((_time_stamp(each.time_s, zone), *each[1:]) for each in events),
        ),
        DETECTORS: (
            "DeviceId Phase Parameter Function Junction Lane",
            (
                (each.device, each.phase, each.parameter, ADVANCE, each.junction, each.lane)
                for numbering in numberings
                for each in numbering.detectors
            ),
        ),
        PHASES: (
            "DeviceId Junction Action Phases Name State",
            (row for each in numberings for row in _phases(each)),
        ),
    }
    for name, (head, rows) in tables.items():
        write_csv(folder / name, head.split(), rows)
    return tuple(folder / name for name in tables)


def _phases(numbering: Numbering) -> Iterator[tuple[object, ...]]:
    junction = numbering.junction
    for action, phase in enumerate(junction.phases):
        numbers = "+".join(map(str, numbering.phases[action]))
        yield numbering.device, junction.id, action, numbers, phase.name, phase.state


def _time_stamp(time_s: float, zone: tzinfo) -> str:
    time = datetime.fromtimestamp(time_s, zone)
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03}"
