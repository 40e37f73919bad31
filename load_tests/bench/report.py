"""What is told of a run: tables, figures as JSON, and a picture."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from load_tests.bench.bars import BARS
from load_tests.bench.comparison import chart
from load_tests.bench.comparison.environment import versions
from load_tests.bench.comparison.figures import Turn
from load_tests.bench.comparison.markdown import (
    bars_table,
    contenders_table,
    rate,
    replace_section,
    under,
    whole,
)
from load_tests.bench.contenders import GREENWAVE, Contender
from load_tests.bench.loads import AT_ONCE, BUSY, PLAIN
from load_tests.bench.machine import Machine
from load_tests.harness.shipped import ROOT

PAGE = ROOT / "docs" / "speed.md"
SECTION = "make bench"
PICTURE = "bench.png"


@dataclass(frozen=True)
class Report:
    """A run that is over.

    Attributes:
        seconds: length of one load.
        contenders: all that were wanted.
        turns: by name, of those that could be measured.
    """

    machine: Machine
    seconds: float
    contenders: Sequence[Contender]
    turns: Mapping[str, Sequence[Turn]]

    def tables(self) -> str:
        """Lay out throughput, latency, cost, several predictions in a request, and the bars."""
        parts = [self._throughput(), self._latency(), self._cost()]
        if GREENWAVE in self.turns:
            parts += [self._at_once(), bars_table(self.turns, BARS)]
        return "\n\n".join(parts)

    def write(self, folder: Path, *, docs: bool) -> Iterator[Path]:
        """Write all into a folder, or over what docs/ has of it; yield each path."""
        folder = PAGE.parent if docs else folder
        folder.mkdir(parents=True, exist_ok=True)
        drawing = chart.draw(self.turns, [load.name for load in PLAIN], [GREENWAVE])
        chart.save(drawing, folder / PICTURE)
        yield folder / PICTURE
        (folder / "bench.json").write_text(self._json())
        yield folder / "bench.json"
        picture = f"![Throughput, CPU time and memory of each contender]({PICTURE})"
        text = "\n\n".join([self._conditions(), picture, self.tables(), self._settings()])
        page = PAGE if docs else folder / "bench.md"
        page.write_text(replace_section(page.read_text(), SECTION, text) if docs else text)
        yield page

    def _throughput(self) -> str:
        ours = self.turns.get(GREENWAVE, ())
        busy = [BUSY] if any(BUSY.name in turn.loads for turn in ours) else []
        columns = {f"req/s at {load.name}": rate(load.name, ours) for load in (*PLAIN, *busy)}
        return contenders_table(self.turns, columns)

    def _latency(self) -> str:
        columns = {f"p50 ms at {load.name}": under(load.name, "p50_ms") for load in PLAIN}
        columns |= {f"p99 ms at {load.name}": under(load.name, "p99_ms") for load in PLAIN}
        return contenders_table(self.turns, columns)

    def _cost(self) -> str:
        # seconds per 1,000 requests are milliseconds each
        columns = {f"CPU ms each at {load.name}": under(load.name, "cpu_s") for load in PLAIN}
        columns["memory, MB"] = whole("memory_bytes", unit=1e6)
        columns["processes"] = whole("processes")
        columns["start, s"] = whole("start_s", digits=1)
        return contenders_table(self.turns, columns)

    def _at_once(self) -> str:
        columns = {}
        for load in AT_ONCE:
            columns[f"predictions/s, {load.name}"] = under(load.name, "per_s", 0)
            columns[f"p50 ms, {load.name}"] = under(load.name, "p50_ms")
        return contenders_table({GREENWAVE: self.turns[GREENWAVE]}, columns)

    def _conditions(self) -> str:
        rounds = max(map(len, self.turns.values()))
        others = [
            figures.other_cores
            for turns in self.turns.values()
            for turn in turns
            for figures in turn.loads.values()
        ]
        return (
            f"{self.machine}. Meanwhile others, programs and machines of the host, took"
            f" {statistics.median(others):.2f} cores, {max(others):.2f} at most.\n\n"
            f"Medians of {rounds} rounds, {self.seconds:g} s for each load, at so many connections;"
            " in brackets, how many times the figure Greenwave's is."
        )

    def _settings(self) -> str:
        return "\n".join(
            f"- **{each.name}**: {each.settings} ({', '.join(map(' '.join, versions_.items()))})."
            for each in self.contenders
            if (versions_ := self._versions.get(each.name))
        )

    def _json(self) -> str:
        contenders = {
            each.name: {
                "settings": each.settings,
                "versions": self._versions[each.name],
                "turns": [asdict(turn) for turn in self.turns[each.name]],
            }
            for each in self.contenders
            if each.name in self.turns
        }
        content = {
            "machine": asdict(self.machine),
            "seconds": self.seconds,
            "contenders": contenders,
        }
        return json.dumps(content, indent=1) + "\n"

    @cached_property
    def _versions(self) -> dict[str, dict[str, str]]:
        measured = [each for each in self.contenders if each.name in self.turns]
        return {each.name: versions(each.python, each.packages) for each in measured}
