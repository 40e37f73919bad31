"""Defects of what keeps hidden states apart from those of another network."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CHANGE = "inference/change_of_network.py"

MUTANTS = [
    Mutant(
        "another network takes over the states of the one before",
        CHANGE,
        "    if kept:\n",
        "    if kept < 0:\n",
    ),
    Mutant(
        "states that will be restored do not count",
        CHANGE,
        "    stamp = None if all_starts else cluster_stamp(session)\n",
        "    stamp = cluster_stamp(session)\n",
    ),
    Mutant(
        "an authority of an earlier start counts as alive",
        CHANGE,
        "row is not None and LeadershipRecord.unpack(row).session == session",
        "row is not None",
    ),
    Mutant(
        "a layout does not say what network it is of",
        "stateful/layout.py",
        "        terms[_NETWORK] = network.digest\n",
        "        pass\n",
    ),
]
