"""Writers that are killed and stopped at any moment: every answered step is in the table, once."""

import multiprocessing
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from deployments.stateful.row import Key, key_of
from deployments.stateful.table import Table
from tests.support.local_states import open_table
from tests.unit.states import writer
from tests.unit.states.tape import FORM, LENGTH
from tests.unit.states.writer import N_WRITERS, TWICE, Answered, Asked, Journal

KILLS = 150
LONGEST_S = 18.0
FORKS = multiprocessing.get_context("forkserver")  # a process that has no thread is forked
FORKS.set_forkserver_preload([writer.__name__])


class Histories:
    """The steps of each state, as answers and observations tell."""

    def __init__(self) -> None:
        self.numbers: dict[Key, dict[int, int]] = defaultdict(dict)  # by step
        self.last: dict[Key, int] = {}

    def add(self, key: Key, step: int, tape: tuple[int, ...]) -> None:
        """Note the latest numbers of a state after a step, which agree with all known ones."""
        numbers = self.numbers[key]
        for earlier in range(min(step, LENGTH)):
            number = tape[-1 - earlier]
            known = numbers.setdefault(step - earlier, number)
            assert known == number, f"step {step - earlier} of {key} was {known}, and then {number}"

    def observe(self, table: Table) -> None:
        """Note the rows of the table."""
        for run in {key.run for key in KEYS}:
            for name, raw in table.rows_of(run).items():
                key, (row,) = key_of(name), FORM.rows(raw)
                step = int(row["step"])
                assert step >= self.last.get(key, 0), f"{key} has lost steps"
                self.last[key] = step
                self.add(key, step, tuple(row["state"].tolist()))


KEYS = [
    *writer.RACED,
    writer.COMMON,
    *(key for number in range(N_WRITERS) for key in (*writer.own(number), *writer.batch(number))),
]


class Writers:
    """Processes that write, each replaced when it was killed.

    Attributes:
        inside: how many were killed within a transaction, as far as is known.
    """

    def __init__(self, folder: Path, table: Table) -> None:
        self.folder, self.table = folder, table
        self.progress, self.is_inside = (FORKS.RawArray("Q", N_WRITERS) for _ in range(2))
        self.histories = Histories()
        self.processes: list[ForkServerProcess] = []
        self.inside = 0
        self._lives = [0] * N_WRITERS
        for number in range(N_WRITERS):
            self.processes.append(self._start(number))

    def _start(self, number: int) -> ForkServerProcess:
        self._lives[number] += 1
        arguments = self.folder, number, self._lives[number], self.progress, self.is_inside
        process = FORKS.Process(target=writer.run, args=arguments, daemon=True)
        process.start()
        return process

    def await_inside(self, number: int) -> None:
        until = time.monotonic() + 0.03
        while not self.is_inside[number] and time.monotonic() < until:
            time.sleep(0.0005)

    def kill(self, number: int) -> None:
        process = self.processes[number]
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "a writer has failed"
        self.inside += self.is_inside[number]
        self.histories.observe(self.table)
        steps = {self.histories.last.get(key, 0) for key in writer.batch(number)}
        assert len(steps) == 1, "a turn was written in part"
        assert not steps.pop() % TWICE
        self.processes[number] = self._start(number)

    def stop(self, number: int, seconds: float) -> None:
        pid = self.processes[number].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


@pytest.fixture
def writers(folder: Path) -> Iterator[Writers]:
    table = open_table(folder, FORM)
    writers = Writers(folder, table)
    yield writers
    writers.end()
    table.close()


def test_every_answered_step_is_made_once_and_in_one_order(writers):
    chance = random.Random(7)
    until, kills = time.monotonic() + LONGEST_S, 0
    while kills < KILLS and time.monotonic() < until:
        time.sleep(chance.uniform(0, 0.03))
        number = chance.randrange(N_WRITERS)
        if chance.random() < 0.5:
            writers.await_inside(number)
        if chance.random() < 0.1:
            writers.stop(number, chance.uniform(0.005, 0.05))
        else:
            writers.kill(number)
            kills += 1
    writers.end()
    histories, folder = writers.histories, writers.folder
    histories.observe(writers.table)

    asked: dict[int, Asked] = {}
    n_answered = 0
    for number in range(N_WRITERS):
        for line in Journal.read(folder / f"journal-{number}"):
            if isinstance(line, Asked):
                asked[line.number] = line
            else:
                assert isinstance(line, Answered)
                assert line.tape[-1] == line.number
                histories.add(asked[line.number].key, line.step, line.tape)
                n_answered += 1
    for key in KEYS:
        numbers = histories.numbers[key]
        assert sorted(numbers) == list(range(1, histories.last.get(key, 0) + 1))
        assert len(set(numbers.values())) == len(numbers), f"a step of {key} was made twice"
        assert all(asked[number].key == key for number in numbers.values())
    common = histories.numbers[writer.COMMON]
    assert all(step == number for step, number in common.items())
    assert n_answered > 10 * kills
    assert kills > KILLS / 5
    assert writers.inside
    assert writers.table.counts()[0] == len(histories.last)
    writers.table.free_stale_readers()
    assert writers.table.pids() <= {os.getpid()}
