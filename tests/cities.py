"""Made-up cities: small networks and such as large as one likes, and policies for them."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models.networks.form import NetworkFile
from models.networks.network import Network, network_of

LINK = "lane", "to", "turn", "shape"


def entry(id: str, agent_index: int, n_phases: int = 2, n_lanes: int = 3) -> dict[str, Any]:
    lanes = [{"id": f"{id}_{lane}", "capacity": 10 + lane} for lane in range(n_lanes)]
    return {"id": id, "agent_index": agent_index, "phases": [{}] * n_phases, "lanes": lanes}


def city_of(*junctions: dict[str, Any], name: str = "a city") -> Network:
    return network_of(NetworkFile.model_validate({"name": name, "junctions": junctions}))


def crossing(
    states: Iterable[str],
    lanes: Mapping[str, float | dict[str, Any]],
    links: Iterable[tuple[Any, ...]],
    **more: object,
) -> NetworkFile:
    """Return a network of one junction, ``a``.

    Args:
        lanes: by id, the capacity or all members.
        links: values of the first members of LINK.
        more: further members of the junction.
    """
    junction = {
        "id": "a",
        "agent_index": 0,
        "phases": [{"state": each} for each in states],
        "lanes": [
            {"id": lane} | (said if isinstance(said, dict) else {"capacity": said})
            for lane, said in lanes.items()
        ],
        "links": [dict(zip(LINK, link, strict=False)) for link in links],
    }
    return NetworkFile.model_validate({"name": "a crossing", "junctions": [junction | more]})


def small_city() -> Network:
    """Three junctions: 3 actions, observations of at most 7 values."""
    return city_of(entry("east", 1), entry("north", 0, 3), entry("west", 2, 2, 4))


def city_of_size(n: int) -> Network:
    return city_of(*(entry(f"j{index}", index, 2 + index % 3) for index in range(n)))


class Agent(nn.Module):
    """The published form of EPyMARL's recurrent agent."""

    def __init__(self, inputs: int, actions: int, hidden: int = 128) -> None:
        super().__init__()
        self.fc1 = nn.Linear(inputs, hidden)
        self.rnn = nn.GRUCell(hidden, hidden)
        self.fc2 = nn.Linear(hidden, actions)

    def forward(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.rnn(torch.relu(self.fc1(inputs)), hidden)
        return self.fc2(hidden), hidden


def agent_for(network: Network, agent_id: bool = True, seed: int = 0) -> Agent:
    """Return an agent whose answers differ clearly, as EPyMARL would build it for the network."""
    torch.manual_seed(seed)
    agent = Agent(network.max_obs + network.n_agents * agent_id, network.n_actions)
    with torch.no_grad():
        for each in agent.parameters():
            each.mul_(3)
    return agent


def save(agent: nn.Module, path: Path) -> Path:
    torch.save(OrderedDict(agent.state_dict()), path)
    return path
