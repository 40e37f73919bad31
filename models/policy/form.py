"""Sizes of the policy and the form of its file, for those who need no PyTorch.

The form is that of EPyMARL's ``agent.th`` (Papoudakis et al., "Benchmarking Multi-Agent Deep
Reinforcement Learning Algorithms in Cooperative Tasks", 2021; its ``RNNAgent``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from models.networks.network import Network

SHIPPED_POLICY = Path(__file__).parents[1] / "weights" / "agent.th"
SHIPPED_SAFE_POLICY = SHIPPED_POLICY.with_name("agent-safe.th")  # trained behind the safety layer

HIDDEN_DIM = 128
MASKED_LOGIT = -1e10


@dataclass(frozen=True)
class PolicyForm:
    """The sizes of a policy.

    Attributes:
        max_obs: length of the longest observation, to which all are padded.
        agent_id: whether the agent's one-hot is part of the input (``obs_agent_id`` of EPyMARL).
    """

    max_obs: int
    n_agents: int
    n_actions: int
    agent_id: bool = True

    @classmethod
    def of(cls, network: Network, agent_id: bool = True) -> PolicyForm:
        return cls(network.max_obs, network.n_agents, network.n_actions, agent_id)

    @property
    def input_dim(self) -> int:
        return self.max_obs + self.n_agents * self.agent_id

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor of the policy's file."""
        return {
            "fc1.weight": (HIDDEN_DIM, self.input_dim),
            "fc1.bias": (HIDDEN_DIM,),
            "rnn.weight_ih": (3 * HIDDEN_DIM, HIDDEN_DIM),
            "rnn.weight_hh": (3 * HIDDEN_DIM, HIDDEN_DIM),
            "rnn.bias_ih": (3 * HIDDEN_DIM,),
            "rnn.bias_hh": (3 * HIDDEN_DIM,),
            "fc2.weight": (self.n_actions, HIDDEN_DIM),
            "fc2.bias": (self.n_actions,),
        }


class InvalidPolicyFileError(ValueError):
    """The file is not a policy that this network can run; the message says why."""
