"""The junction table: the one place that says which junctions exist and what they may do.

Source: section "Known junction identifiers" of the traffic-signal contract. A junction's position
in the table is its agent index, the one-hot part of the shared policy's input.
"""

from __future__ import annotations

from dataclasses import dataclass

N_ACTIONS = 4
MAX_OBS = 19  # longest observation: 4 phases + 1 min-green flag + 14 lanes


@dataclass(frozen=True)
class Junction:
    """One controlled junction.

    Attributes:
        id: identifier in requests.
        agent_index: position of the junction's one-hot bit in the policy's input.
        n_phases: number of green phases, and so of available actions.
        n_lanes: incoming lanes, each one queue value of the observation.
    """

    id: str
    agent_index: int
    n_phases: int
    n_lanes: int

    @property
    def obs_size(self) -> int:
        """Length of the junction's own observation: phase one-hot, min-green flag, lane queues."""
        return self.n_phases + 1 + self.n_lanes

    @property
    def avail_actions(self) -> tuple[int, ...]:
        """Action mask of length N_ACTIONS: 1 for each action the junction has a phase for."""
        return tuple(int(action < self.n_phases) for action in range(N_ACTIONS))


JUNCTIONS: dict[str, Junction] = {
    junction.id: junction
    for junction in (
        Junction("joinedS_265580996_300839357", agent_index=0, n_phases=4, n_lanes=14),
        Junction("300839359", agent_index=1, n_phases=2, n_lanes=5),
        Junction("265580972", agent_index=2, n_phases=2, n_lanes=5),
        Junction("1270712555", agent_index=3, n_phases=2, n_lanes=5),
        Junction("8541180897", agent_index=4, n_phases=2, n_lanes=5),
    )
}
N_AGENTS = len(JUNCTIONS)
