"""A process that steps states of a table that other such processes step, too, and may be killed.

It notes what it asks for and what was answered in a file, which outlives it. There are three kinds
of states: those that all writers race for, without idempotency keys; those of one writer, whose
successor repeats what was not answered, with its key; and one that all writers step with the same
keys.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from deployments.stateful.batcher import Batcher
from deployments.stateful.calls import RowOutcomes, StepResult
from deployments.stateful.engine import Engine
from deployments.stateful.row import RECEIPTS, Key
from deployments.stateful.table import Table
from tests.support.local_states import LocalShard, open_table
from tests.unit.states.tape import FORM, Tape, print_of, rows_of

Board = Any  # an array that all processes share, with a number of each writer

N_WRITERS = 3
RACED = [Key("raced", f"junction-{n}") for n in range(3)]
COMMON = Key("common", "junction")
N_OF_BATCH = 48
TWICE = 2  # a batch steps each of its states twice


def own(writer: int) -> list[Key]:
    return [Key(f"own-{writer}", f"junction-{n}") for n in range(2)]


def batch(writer: int) -> list[Key]:
    return [Key(f"batch-{writer}", f"junction-{n:02}") for n in range(N_OF_BATCH)]


class Asked(NamedTuple):
    """A step that was asked for."""

    number: int
    key: Key
    request_id: str


class Answered(NamedTuple):
    """The answer to a step."""

    number: int
    step: int
    tape: tuple[int, ...]


class Journal:
    """What a writer and its predecessors have asked for, and what was answered."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self._file, b"\n")  # ends what a predecessor was killed in

    def note(self, *lines: Asked | Answered) -> None:
        os.write(self._file, "".join(json.dumps(line) + "\n" for line in lines).encode())

    @staticmethod
    def read(path: Path) -> Iterator[Asked | Answered]:
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                number, what, more = json.loads(line)
            except ValueError:  # it was killed in the middle of the line
                continue
            if isinstance(more, str):
                yield Asked(number, Key(*what), more)
            else:
                yield Answered(number, what, tuple(more))


class SlowTable(Table):
    """Stays inside some of its transactions for a while, and notes that."""

    inside: Board
    writer: int

    @contextmanager
    def _changing(self) -> Iterator[Any]:
        with super()._changing() as txn:
            yield txn
            if random.random() < 0.1:
                self.inside[self.writer] = 1
                time.sleep(0.003)
        self.inside[self.writer] = 0


class Writer:
    """The clients of one process.

    Args:
        number: of its place among the writers.
        life: number of the process in its place.
    """

    def __init__(
        self, folder: Path, number: int, life: int, progress: Board, batcher: Batcher
    ) -> None:
        self._number, self._progress, self._batcher = number, progress, batcher
        path = folder / f"journal-{number}"
        self._before = list(Journal.read(path))
        self._journal = Journal(path)
        self._next = (number << 28) + (life << 16)

    def number(self) -> int:
        self._next += 1
        return self._next

    async def run(self) -> None:
        await self._repeat()
        await asyncio.gather(
            *(self._race() for _ in range(2)),
            *(self._step_own(key) for key in own(self._number)),
            self._step_common(),
            self._step_batch(),
        )

    async def _ask(self, asked: Asked) -> StepResult:
        self._journal.note(asked)
        request_id = None if asked.request_id == "-" else asked.request_id
        number = asked.number
        found = await self._batcher.submit(asked.key, number, request_id, print_of(number))
        self._journal.note(Answered(number, found.step, found.output))
        return found

    async def _repeat(self) -> None:
        """Repeat what predecessors have asked for with a key, and were not answered."""
        answered = {each.number for each in self._before if isinstance(each, Answered)}
        for asked in self._before:
            if not isinstance(asked, Asked) or asked.number in answered:
                continue
            if asked.key in own(self._number):
                await self._ask(asked)

    async def _race(self) -> None:
        while True:
            await self._ask(Asked(self.number(), random.choice(RACED), "-"))

    async def _step_own(self, key: Key) -> None:
        while True:
            number = self.number()
            asked = Asked(number, key, f"id-{number}")
            found = await asyncio.gather(*(self._ask(asked) for _ in range(random.choice((1, 3)))))
            assert len(set(found)) == 1

    async def _step_common(self) -> None:
        """Step with the keys 1, 2, … with which all writers step; a state remembers 64 of them."""
        while True:
            number = self._progress[self._number] + 1
            while number > min(self._progress) + RECEIPTS // 2:
                await asyncio.sleep(0.001)
            await self._ask(Asked(number, COMMON, f"common-{number}"))
            self._progress[self._number] = number

    async def _step_batch(self) -> None:
        """Step states together, which a turn does in one transaction."""
        while True:
            asked = [Asked(self.number(), key, "-") for key in batch(self._number) * TWICE]
            self._journal.note(*asked)
            outcomes = RowOutcomes(len(asked))
            rows = rows_of([each.key for each in asked], [each.number for each in asked])
            self._batcher.submit_rows(rows, range(len(asked)), outcomes)
            found = await outcomes.all()
            answers: Any = zip(asked, found.steps, found.outputs, strict=True)
            self._journal.note(*(Answered(one.number, *answer) for one, *answer in answers))
            await asyncio.sleep(0.002)


def run(folder: Path, number: int, life: int, progress: Board, inside: Board) -> None:
    """Write until the process is killed.

    Args:
        progress: the latest number that each writer has stepped the common state with.
        inside: whether each writer is within a transaction.
    """
    random.seed(life * N_WRITERS + number)
    table = open_table(folder, FORM, kind=SlowTable)
    assert isinstance(table, SlowTable)
    table.inside, table.writer = inside, number
    inside[number] = 0

    async def main() -> None:
        model = Tape()
        batcher = Engine([LocalShard(table)], FORM).batcher(lambda: model)
        await Writer(folder, number, life, progress, batcher).run()

    asyncio.run(main())
