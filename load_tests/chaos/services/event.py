"""Something that happens to a whole system, and what of it clients may notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from load_tests.chaos.services.house import House
from load_tests.harness.shipped import Config, shipped_config

ONE_DEATH_S = 2.0


@dataclass(frozen=True)
class Event:
    """One thing that happens to a running system.

    Attributes:
        happen: does it; raises ``Mishap`` when it could not be done, or did not do what it should.
        config: that the system serves beforehand.
        bar_s: longest time for which a service may answer nobody because of it.
        spared: services for which ``bar_s`` does not count, with their own bar.
        may_lose: whether answered steps of hidden states may be lost, in default mode.
        may_break: whether connections of clients may break.
        flawless: whether all requests are to be answered, and by none but the service itself.
    """

    name: str
    about: str
    happen: Callable[[House], None]
    config: Callable[[], Config] = shipped_config
    bar_s: float = ONE_DEATH_S
    spared: dict[str, float] = field(default_factory=dict)
    may_lose: bool = False
    may_break: bool = False
    flawless: bool = False
