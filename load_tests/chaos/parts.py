"""The two parts of fault injection, and what a fault has cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from deployments.stateful.options import StateOptions
from load_tests.chaos.faults import CHANGES, KILLS
from load_tests.harness.system import QUICK

MODES: tuple[str, ...] = get_args(StateOptions.model_fields["durability"].annotation)


@dataclass(frozen=True)
class Result:
    """What a fault has cost.

    Attributes:
        away: by the name of what was without an answer, for how many seconds at most, and for how
            many it may be.
        broken: what else is worse than it may be, as sentences.
        details: what helps to find the cause, as sentences.
        row: cells by column.
    """

    away: Mapping[str, tuple[float, float]]
    broken: Sequence[str]
    details: Sequence[str]
    row: Mapping[str, str]

    def complaints(self, slack_s: float = 0.0) -> list[str]:
        """Return what is worse than it may be, as sentences.

        Args:
            slack_s: added to the time without an answer, for a busy machine.
        """
        late = [
            f"{name} was away for {seconds:.1f} s, not {allowed_s:g}"
            for name, (seconds, allowed_s) in self.away.items()
            if seconds > allowed_s + slack_s
        ]
        return [*late, *self.broken]


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        about: the help text.
        faults: their names.
        title: of the table of results.
        modes: of the durability of hidden states, in which each fault is injected under clients of
            these; without one, under clients of every service.
        settings: environment variables of the system.
    """

    about: str
    faults: Sequence[str]
    title: str
    modes: Sequence[str] = ("",)
    settings: Mapping[str, str] = field(default_factory=dict)


PARTS = {
    "services": Part(
        """Kills the parts of a whole system one by one, and changes its version, well and badly,
under the load of clients of every service.

The system is started as `make up` does. The exit code is 1 when a service was away for longer than
it may be, clients saw something undocumented, a request failed because of a change, or something
acknowledged is gone.

    make chaos ARGS="services --only front,edge,code,rollback --seconds 8"
""",
        [each.name for each in (*KILLS, *CHANGES)],
        "longest time without an answer of a service, in seconds",
    ),
    "states": Part(
        """Kills, stops and changes parts of a whole system under clients of hidden states, and
counts what it costs over HTTP: answered steps that were lost, steps that were made twice, states
that survived a reset, and the longest time without an answer for a run. No step may be lost in any
mode.

The exit code is 1 when a promise of docs/hidden-states.md is broken.

    make chaos ARGS="states --only inference,all-inference --modes memory --seconds 12"
""",
        [
            *("nothing", "inference", "only-inference", "states", "all-inference", "one-by-one"),
            *("inference-pause", "states-pause", "controller", "store", "scale", "rollback", "ray"),
        ],
        "steps lost, doubled, revived; away: longest time without an answer for a run",
        MODES,
        QUICK,
    ),
}
