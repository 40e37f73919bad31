"""Files of an event log, as the package ``atspm`` and people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    times = (datetime.fromtimestamp(each.time_s, zone) for each in events)
    tables: dict[str, tuple[Sequence[str], Iterable[Sequence[object]]]] = {
        EVENTS: (
            ("TimeStamp", "DeviceId", "EventId", "Parameter"),
            (
                (f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03}", *event[1:])
                for time, event in zip(times, events, strict=True)
            ),
        ),
        DETECTORS: (
            ("DeviceId", "Phase", "Parameter", "Function", "Junction", "Lane"),
            (
                (each.device, each.phase, each.parameter, ADVANCE, each.junction, each.lane)
                for numbering in numberings
                for each in numbering.detectors
            ),
        ),
        PHASES: (
            ("DeviceId", "Junction", "Action", "Phases", "Name", "State"),
            (
                (
                    each.device,
                    each.junction.id,
                    action,
                    "+".join(map(str, numbers)),
                    phase.name,
                    phase.state,
                )
                for each in numberings
                for action, (numbers, phase) in enumerate(
                    zip(each.phases, each.junction.phases, strict=True)
                )
            ),
        ),
    }
    for name, (head, rows) in tables.items():
        write_csv(folder / name, head, rows)
    return tuple(folder / name for name in tables)
