"""Clients of every node, and what they saw: unavailable services, lost steps and records."""

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from deployments.stateful.shards import shard_of
from load_tests.chaos.checker import Harm, Verdict, check
from load_tests.chaos.clients import ANSWERED
from load_tests.chaos.history import Key
from load_tests.chaos.requests import Record, Request, Stream, new_records, predictions, sending
from tests.nodes.node import Node

SETTLED_S = 2.0
SHARDS = 2  # of each inference application
PATHS = {"inference": "", "lossless": "/lossless", "loans": ""}
"""Where the clients of each service find it, behind a node's front."""

_NUMBERS = itertools.count(2_000_000_000, 1_000_000)


@dataclass
class Watch:
    """What the clients of some nodes saw.

    Attributes:
        records: by service.
        fault: when it began, and when it was over, because its processes end one after the other.
    """

    nodes: Collection[Node]
    records: dict[str, Record] = field(default_factory=lambda: {name: Record() for name in PATHS})
    fault: tuple[float, float] = (0.0, 0.0)
    ended: float = 0.0

    @contextlib.contextmanager
    def happening(self) -> Iterator[None]:
        """Record that a fault lasts meanwhile."""
        began = time.monotonic()
        self.fault = began, began
        try:
            yield
        finally:
            self.fault = began, time.monotonic()

    def away_s(self, service: str, node: Node) -> float:
        """Return the longest time since the first fault without an answer to a node's clients."""
        return self.records[service].away_s(_name(service, node), self.fault[0], self.ended)

    def silent_s(self, service: str) -> float:
        """Return the longest time since the first fault in which a state was not stepped."""
        history = self.records[service].history
        times: dict[Key, list[float]] = {each.key: [self.fault[0]] for each in history.answers}
        for each in history.answers:
            if self.fault[0] < each.done < self.ended:
                times[each.key].append(each.done)
        return max(
            later - earlier
            for moments in times.values()
            for earlier, later in itertools.pairwise([*sorted(moments), self.ended])
        )

    def all_answered_since(self, moment: float, nodes: Collection[Node]) -> bool:
        """Return whether each node has answered for each service, and each state was stepped."""
        served = {
            each.service
            for record in self.records.values()
            for each in record.seen
            if each.what == ANSWERED and each.sent > moment
        }
        asked = [each for record in self.records.values() for each in record.history.predictions]
        histories = [record.history for record in self.records.values()]
        stepped = {e.key for each in histories for e in each.answers if e.sent > moment}
        everywhere = {_name(service, node) for service, node in itertools.product(PATHS, nodes)}
        return everywhere <= served and {each.key for each in asked} == stepped

    def verdict(self, service: str) -> Verdict:
        """Check the hidden states of one inference application."""
        return check(self.records[service].history)

    def lost_s(self, service: str) -> float:
        """Return how long before or after the fault a lost step was answered; 0 if none was."""
        began, over = self.fault
        lost = (each.answer.done for each in self.verdict(service).findings)
        return max([0.0, *(max(began - done, done - over) for done in lost)])

    def missing(self, through: Node) -> list[str]:
        """Return the acknowledged records that cannot be found through a node."""
        return self.records["loans"].missing({"loans": through.url})

    def __str__(self) -> str:
        lines = []
        for service in ("inference", "lossless"):
            verdict = self.verdict(service)
            harms = ", ".join(f"{verdict.steps(harm)} {harm.value}" for harm in Harm)
            lines.append(
                f"{service}: {harms}, {1e3 * self.lost_s(service):.0f} ms before the fault at most;"
                f" no state silent for longer than {self.silent_s(service):.1f} s"
            )
        for node, service in itertools.product(self.nodes, PATHS):
            kinds = dict(self.records[service].counts(_name(service, node)))
            away_s = self.away_s(service, node)
            lines.append(f"node {node.number}, {service}: away {away_s:.1f} s, {kinds}")
        return "\n".join(lines)


@contextlib.asynccontextmanager
async def watched(nodes: Collection[Node]) -> AsyncIterator[Watch]:
    """Send requests to the front of each node; the clients of all of them share hidden states."""
    watch, runs = Watch(nodes), runs_of_shards(uuid.uuid4().hex[:12])
    async with sending(
        Stream(_name(service, node), node.url + PATHS[service], requests, record)
        for node, (service, record) in itertools.product(nodes, watch.records.items())
        for requests in _requests(service, runs, record)
    ):
        await asyncio.sleep(SETTLED_S)
        yield watch
        await asyncio.sleep(SETTLED_S)
        watch.ended = time.monotonic()


def runs_of_shards(prefix: str, n: int = 1) -> list[str]:
    """Return the names of n runs of each shard."""
    runs: list[list[str]] = [[] for _ in range(SHARDS)]
    for name in (f"{prefix}.{number}" for number in range(64)):
        runs[shard_of(name, SHARDS)].append(name)
    return [name for of_shard in runs for name in of_shard[:n]]


def _requests(service: str, runs: Sequence[str], record: Record) -> list[Iterator[Request]]:
    if service == "loans":
        return [new_records(service, next(_NUMBERS), record)]
    return [predictions(run) for run in runs]


def _name(service: str, node: Node) -> str:
    return f"{service}@{node.number}"
