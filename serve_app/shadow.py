"""The recorder of ``greenwave lab shadow``: asks for recommendations, and logs them beside records.

It asks in runs of the policy's hidden states that no controller uses, a new one for each segment.
So the policy begins from zeros after a gap, and what it answers reaches the log only.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from greenwave.client import Client, RefusedError, Shown, UnavailableError
from lab.shadow.findings import POLICY
from lab.shadow.lamps import Lamps
from lab.shadow.log import Clock, Entry, LogWriter, Segment
from lab.shadow.records import Malformed, Record
from models.networks.network import Network

MAX_SENTENCES = 10  # on malformed lines
SHORT_SEGMENTS, SHORT_RECORDS = 10, 100  # so many segments with so few records: no order

Lines = Iterable[tuple[int, Record | Malformed]]


class ShadowError(Exception):
    """The recording ends; one sentence."""


@dataclass
class Recorded:
    """Numbers of a recording."""

    records: int = 0
    decisions: int = 0
    recommended: int = 0
    malformed: int = 0
    segments: int = 0


class Recorder:
    """Records one source into a log.

    Args:
        log: whose last segment has the source and its last line.
        client: of the gateway.
        source: names the records; empty for a stream, which cannot be read again.
        notify: prints a sentence.
    """

    def __init__(
        self,
        network: Network,
        log: LogWriter,
        client: Client,
        source: str,
        notify: Callable[[str], None],
        gap_s: float,
    ) -> None:
        assert network.file is not None
        self._network, self._log, self._client, self._notify = network, log, client, notify
        self._junctions = network.file.junctions
        self._name, self._source = f"shadow-{uuid.uuid4().hex[:12]}", source
        self._gap_s = gap_s
        self._segment = log.tail.segment.segment if log.tail else 0
        continues = log.tail is not None and source and log.tail.segment.source == source
        self._done = log.tail.line if continues and log.tail else 0
        self._sizes: deque[int] = deque([SHORT_RECORDS] * SHORT_SEGMENTS, SHORT_SEGMENTS)
        self.recorded = Recorded()
        self._away = False

    def record(self, lines: Lines) -> None:
        """Record lines until they end.

        Raises:
            ShadowError: the gateway refuses, or a source that can be read again meets a gateway
                that does not answer; or the records have no order.
            ShadowLogError: the log cannot be written.
        """
        clock = Clock(self._gap_s)
        for line, record in lines:
            if line <= self._done:
                continue
            if isinstance(record, Malformed):
                self._skip(line, record)
                continue
            jump = clock.jump(record.time)
            if jump and self.recorded.segments:
                self._notify(f"Line {line}: {jump}. Segment {self._segment + 1} begins.")
            if jump or not self.recorded.segments:
                self._begin(line, jump)
            self._log.append(self._entry(line, record))
            self.recorded.records += 1
            self._sizes[-1] += 1

    def _begin(self, line: int, jump: str) -> None:
        if sum(self._sizes) < SHORT_RECORDS:
            raise ShadowError(
                f"Line {line}: the records are not in the order of their times. Sort them by time,"
                " or raise --gap"
            )
        reason = jump or ("continued" if self._segment else "start")
        self._segment += 1
        name = f"{self._name}-{self._segment}"
        self._run = self._client.run(name)
        self._lamps = {each.id: Lamps(each) for each in self._junctions}
        self._sizes.append(0)
        self._log.append(
            Segment(
                segment=self._segment,
                reason=reason,
                network=self._network.digest,
                run=name,
                source=self._source,
                line=line - 1,
            )
        )
        self.recorded.segments += 1

    def _skip(self, line: int, malformed: Malformed) -> None:
        self.recorded.malformed += 1
        if self.recorded.malformed <= MAX_SENTENCES:
            self._notify(f"Line {line} is skipped: {malformed.reason}.")
        if self.recorded.malformed == MAX_SENTENCES:
            self._notify("Further lines that are skipped are only counted.")

    def _entry(self, line: int, record: Record) -> Entry:
        self._lamps[record.junction].see(record)
        entry = Entry.model_construct(**dict(record), line=line)
        if record.observation is None:
            return entry
        shown = self._lamps[record.junction].shown(record)
        self.recorded.decisions += 1
        recommended, answer = self._ask(line, record, Shown(*shown))
        self.recorded.recommended += recommended is not None
        return entry.model_copy(update={"recommended": recommended, "answer": answer})

    def _ask(self, line: int, record: Record, shown: Shown) -> tuple[int | None, str]:
        """Return the phase that the policy asks for, and ``policy`` or why there is none."""
        observation = record.observation or ()
        try:
            decision = self._run.act(record.junction, observation, shown=shown)
        except RefusedError as error:
            raise ShadowError(f"Line {line}: the gateway refuses the request: {error}") from error
        except UnavailableError as error:
            reason = f"the gateway did not answer: {error}"
            if self._source:
                raise ShadowError(
                    f"Line {line}: {reason}. Repeat the command to continue"
                ) from error
            if not self._away:
                self._notify(f"Line {line}: {reason}. Records are logged without recommendations.")
            self._away = True
            return None, "the gateway did not answer"
        self._away = False
        if decision.is_fallback:
            return None, decision.status
        asked = decision.action if decision.safety is None else decision.safety.asked
        return asked, POLICY
