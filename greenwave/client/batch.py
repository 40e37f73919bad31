"""Steps of many simulators, combined into few calls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from greenwave.client.errors import InvalidInputError, RefusedError, UnavailableError
from greenwave.client.inputs import new_key
from greenwave.client.results import Predictions, Received
from greenwave.client.tensors import Array, Encoded, Rows, encode, packed_run

Step = Callable[[Encoded, list[bytes], list[str]], Predictions]
"""Makes the steps of rows, with their runs, encoded, and their keys."""


@dataclass(frozen=True, slots=True)
class _Sent:
    run: str
    key: str
    rows: Encoded

    def __len__(self) -> int:
        return len(self.rows.observations)


class Batch:
    """Combines what simulators send into one call after the other; ``with`` closes it.

    A call takes what arrived during the one before, so slow simulators delay no others. Threads
    can share a batch; one background thread sends.
    """

    def __init__(self, step: Step, max_rows: int, max_waiting: int) -> None:
        self._step = step
        self._max_rows, self._max_waiting = max_rows, max_waiting
        self._changed = threading.Condition()
        self._waiting: deque[_Sent] = deque()
        self._n_waiting = 0
        self._received: deque[Received] = deque()
        self._closed = self._ended = False
        self._thread = threading.Thread(target=self._run, name="greenwave-batch", daemon=True)
        self._thread.start()

    def send(
        self,
        run: str,
        junctions: Sequence[str] | Sequence[int] | Array,
        observations: Rows,
        *,
        timeout_s: float | None = None,
    ) -> str:
        """Hand over a run's observations, and return the key of the steps.

        Raises:
            InvalidInputError: an argument is wrong, or the batch is closed.
            UnavailableError: too many rows were waiting for ``timeout_s``.
        """
        packed_run(run)
        sent = _Sent(run, new_key(), encode(observations, junctions))
        with self._changed:
            fits = self._changed.wait_for(lambda: self._closed or self._fits(sent), timeout_s)
            if self._closed:
                raise InvalidInputError("The batch is closed")
            if not fits:
                raise UnavailableError(f"{self._n_waiting} rows are waiting for a call")
            self._waiting.append(sent)
            self._n_waiting += len(sent)
            self._changed.notify_all()
        return sent.key

    def recv(self, timeout_s: float | None = None) -> Received:
        """Return the results of a run, in the order in which they arrive.

        Raises:
            InvalidInputError: the batch is closed, and all results were returned.
            UnavailableError: no result arrived within ``timeout_s``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._received or self._ended, timeout_s)
            if self._received:
                return self._received.popleft()
            if self._ended:
                raise InvalidInputError("The batch is closed")
            raise UnavailableError(f"No result arrived within {timeout_s} s")

    def close(self) -> None:
        """Send what waits, and end; ``recv`` still returns the results."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fits(self, sent: _Sent) -> bool:
        return not self._waiting or self._n_waiting + len(sent) <= self._max_waiting

    def _run(self) -> None:
        while sends := self._take():
            received = self._call(sends)
            with self._changed:
                self._received += received
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _take(self) -> list[_Sent]:
        """Wait for rows, and return those of the next call; none after the end.

        A run is in a call once: a call takes only so many rows of one state.
        """
        taken: list[_Sent] = []
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            n_rows, runs = 0, set()
            while self._waiting:
                sent = self._waiting[0]
                n_rows += len(sent)
                mixed = bool(taken) and sent.rows.indexed != taken[0].rows.indexed
                if taken and (n_rows > self._max_rows or mixed or sent.run in runs):
                    break
                taken.append(self._waiting.popleft())
                self._n_waiting -= len(sent)
                runs.add(sent.run)
            self._changed.notify_all()
        return taken

    def _call(self, sends: list[_Sent]) -> list[Received]:
        runs = [packed_run(each.run) for each in sends for _ in range(len(each))]
        ids = [f"{each.key}.{row}" for each in sends for row in range(len(each))]
        try:
            observations = [row for each in sends for row in each.rows.observations]
            junctions = [name for each in sends for name in each.rows.junctions]
            done = self._step(Encoded(observations, junctions, sends[0].rows.indexed), runs, ids)
        except RefusedError as error:
            if len(sends) > 1:  # one of them may be wrong, and no step was made
                return [received for each in sends for received in self._call([each])]
            return [Received(sends[0].run, sends[0].key, error)]
        except Exception as error:  # of a defect too: it must not end the thread
            return [Received(each.run, each.key, error) for each in sends]
        received, end = [], 0
        for each in sends:
            begin, end = end, end + len(each)
            received.append(Received(each.run, each.key, None, done.part(begin, end)))
        return received
