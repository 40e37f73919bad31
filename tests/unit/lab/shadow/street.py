"""Records of the harbour's junction ``pier``: two phases, three lanes, yellow and all-red."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.shadow.log import Entry, Segment
from lab.shadow.records import Record
from models.networks.network import Network, read_network

HARBOUR_FILE = Path(__file__).resolve().parents[4] / "configs" / "harbour.json"
HARBOUR: Network = read_network(HARBOUR_FILE)
PIER = "pier"
QUAY, YELLOW, CLEAR, LANDWARD = "GGrr", "yyrr", "rrrr", "rrGG"
START_S = 1_000_000_800.0  # a quarter of an hour begins


def decision(time_s: float, phase: int, *queues: float, may_change: bool = True) -> Record:
    """Return a decision; ``time_s`` counts from START_S, queues are 0 where they are not given."""
    lanes = [*queues, 0.0, 0.0, 0.0][:3]
    one_hot = [float(each == phase) for each in range(2)]
    observation = (*one_hot, float(may_change), *lanes)
    return Record(time=START_S + time_s, junction=PIER, observation=observation)


def lamps(time_s: float, state: str) -> Record:
    return Record(time=START_S + time_s, junction=PIER, state=state)


def loop(time_s: float, lane: str, occupied: bool = True) -> Record:
    return Record(time=START_S + time_s, junction=PIER, lane=lane, occupied=occupied)


def cycles(number: int, first_s: float = 0.0) -> Iterator[Record]:
    """Yield cycles of a minute: each phase 25 s of green, 3 s of yellow and 2 s of red."""
    for begin_s in (first_s + 60.0 * each for each in range(number)):
        for offset_s, state in (
            *((0, QUAY), (25, "yyrr"), (28, CLEAR)),
            *((30, LANDWARD), (55, "rryy"), (58, CLEAR)),
        ):
            yield lamps(begin_s + offset_s, state)


def logged(
    records: Iterable[Record], recommended: int | None = None, segment: int = 1
) -> Iterator[Segment | Entry]:
    """Yield a segment of a log in which the policy always asks for one phase."""
    yield Segment(segment=segment, reason="start", network=HARBOUR.digest)
    for record in records:
        entry = Entry.model_construct(**dict(record))
        if record.observation is not None and recommended is not None:
            entry = entry.model_copy(update={"recommended": recommended, "answer": "policy"})
        yield entry
