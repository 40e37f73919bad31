"""The conflict monitor refuses what must not be shown, and lets pass what the network has."""

from __future__ import annotations

import ast
import inspect
from itertools import product

import pytest

from models.networks.shipped import SHIPPED
from models.signals import monitor as module
from models.signals.monitor import ConflictError, ConflictMonitor, make_monitors
from models.signals.signal import read_signals

MONITORS = make_monitors(SHIPPED)
SIGNALS = read_signals(SHIPPED)


@pytest.mark.parametrize("junction", MONITORS)
def test_green_before_the_yellow_of_the_others_is_over_is_refused(junction):
    for one, other in product(SIGNALS[junction].phases, repeat=2):
        if one == other:
            continue
        early = "".join(
            ("G" if b in "Gg" else "r") if a == "r" else "y"
            for a, b in zip(one, other, strict=True)
        )
        with pytest.raises(ConflictError):
            MONITORS[junction].check(early)


@pytest.mark.parametrize("junction", MONITORS)
def test_a_turn_that_gives_way_must_not_have_the_letter_of_priority(junction):
    for phase in SIGNALS[junction].phases:
        MONITORS[junction].check(phase)
        if "g" in phase:
            with pytest.raises(ConflictError):
                MONITORS[junction].check(phase.replace("g", "G"))


@pytest.mark.parametrize("junction", MONITORS)
def test_all_red_and_every_single_green_pass(junction):
    n_links = len(SIGNALS[junction].phases[0])
    MONITORS[junction].check("r" * n_links)
    for link in range(n_links):
        MONITORS[junction].check("r" * link + "G" + "r" * (n_links - link - 1))


@pytest.mark.parametrize("state", ["", "G", "GGGGGGGGGGGG", "rrrrrrrrrrX", "rrrrrrrrrrrrrrrr"])
def test_what_is_no_state_of_the_junction_is_refused(state):
    with pytest.raises(ConflictError, match="is not a state of 11 links"):
        MONITORS["300839359"].check(state)


def test_a_yield_that_no_phase_shows_is_a_conflict():
    strict = ConflictMonitor(2, {(0, 1)}, set())
    for state in ("Gg", "gG", "yG", "Gy", "gg", "yy"):
        with pytest.raises(ConflictError):
            strict.check(state)
    yielding = ConflictMonitor(2, {(0, 1)}, {(0, 1)})
    for state in ("gG", "yG", "yy", "rG", "Gr", "gg"):
        yielding.check(state)
    for state in ("GG", "Gg", "Gy"):
        with pytest.raises(ConflictError):
            yielding.check(state)


def test_what_it_remembers_is_bounded():
    monitor = ConflictMonitor(12, set(), set())
    for letters in product("rG", repeat=12):
        monitor.check("".join(letters))
    assert len(monitor._known) <= 1000


def test_it_shares_no_code_with_the_layer_that_it_watches():
    tree = ast.parse(inspect.getsource(module))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {name for name in imported if name and name.startswith("models")}
    assert ours == {"models.networks.network", "models.signals.signal"}
