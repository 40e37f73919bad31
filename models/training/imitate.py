"""Train the policy to imitate the rolling-horizon teacher: ``python -m models.training.imitate``.

DAgger (Ross, Gordon and Bagnell, "A Reduction of Imitation Learning and Structured Prediction
to No-Regret Online Learning", 2011): the policy drives more and more of the simulations itself
while the teacher says what it would have done, so the policy also learns to leave its own mistakes.
The GRU learns through time, with truncated back-propagation and its state carried over whole hours.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from models.networks.shipped import JUNCTIONS, N_ACTIONS, N_AGENTS, SHIPPED
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import encode_all
from models.policy.network import RecurrentPolicy, mask_logits
from models.simulation.controllers import PolicyController
from models.simulation.demand import HOUR_S
from models.simulation.environment import Scenario, TrafficEnvironment
from models.simulation.road_network import RoadNetwork, read_network
from models.training.rolling_horizon import RollingHorizon
from models.training.traffic_levels import IMITATION_SEED

IMITATION_POLICY = Path(__file__).with_name("imitation.th")

COST_TEMPERATURE = (
    4.0  # vehicle decisions of waiting by which a worse action is e times less likely
)
FORCED_WEIGHT = 0.1  # of decisions in which yellow or minimum green leave no choice
CHUNK = 60  # decisions per truncated back-propagation
BATCH_EPISODES = 16
EPOCHS_PER_ROUND = 3
LEARNING_RATE = 1e-3
AVAIL_ACTIONS = torch.tensor([SHIPPED.avail_actions(each) for each in JUNCTIONS])


@dataclass(frozen=True)
class Demonstrations:
    """One episode: T decisions of all agents.

    Attributes:
        inputs: (T, N_AGENTS, INPUT_DIM) what the policy saw.
        targets: (T, N_AGENTS, N_ACTIONS) the teacher's distribution over actions.
        weights: (T, N_AGENTS) how much each decision counts.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor


def draw_scenario(rng: np.random.Generator) -> Scenario:
    """Draw an hour between 5 and 22 o'clock, from quiet to more than the network can carry."""
    begin = int(rng.integers(5 * 12, 21 * 12)) * HOUR_S // 12
    return Scenario(begin_s=begin, demand_scale=float(rng.uniform(0.7, 1.3)))


def demonstrate(
    policy: RecurrentPolicy,
    network: RoadNetwork,
    scenario: Scenario,
    seed: int,
    teacher_share: float,
    rng: np.random.Generator,
) -> Demonstrations:
    """Drive an episode; the teacher makes the given share of the decisions, the policy the rest."""
    teacher, student = RollingHorizon(network), PolicyController(policy)
    inputs, targets, weights = [], [], []
    with TrafficEnvironment(scenario, network) as environment:
        observations = environment.reset(seed)
        while not environment.done:
            costs = teacher.plan(observations)
            inputs.append(encode_all(observations))
            targets.append(soft_targets(costs))
            weights.append([FORCED_WEIGHT if np.isinf(costs[j]).any() else 1.0 for j in JUNCTIONS])
            actions = student.act(observations)
            if rng.random() < teacher_share:
                actions = {j: int(cost.argmin()) for j, cost in costs.items()}
            observations = environment.step(actions)
    return Demonstrations(
        *(torch.from_numpy(np.array(part, np.float32)) for part in (inputs, targets, weights))
    )


def soft_targets(costs: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """(N_AGENTS, N_ACTIONS): the cheaper an action's plan, the likelier; unavailable ones never."""
    targets = np.zeros((N_AGENTS, N_ACTIONS))
    for junction in JUNCTIONS.values():
        excess = costs[junction.id] - costs[junction.id].min()
        likelihood = np.exp(-excess / COST_TEMPERATURE)
        targets[junction.agent_index, : junction.n_phases] = likelihood / likelihood.sum()
    return targets


def train_epoch(
    policy: RecurrentPolicy,
    optimizer: torch.optim.Optimizer,
    episodes: list[Demonstrations],
    rng: np.random.Generator,
) -> float:
    """Pass once over all episodes in random batches; returns the mean cross-entropy."""
    losses = []
    order = rng.permutation(len(episodes))
    for start in range(0, len(order), BATCH_EPISODES):
        batch = [episodes[i] for i in order[start : start + BATCH_EPISODES]]
        inputs = torch.cat([episode.inputs for episode in batch], dim=1)
        targets = torch.cat([episode.targets for episode in batch], dim=1)
        weights = torch.cat([episode.weights for episode in batch], dim=1)
        avail_actions = AVAIL_ACTIONS.repeat(len(batch), 1)
        hidden = torch.zeros(inputs.shape[1], HIDDEN_DIM)
        for begin in range(0, len(inputs), CHUNK):
            chunk = slice(begin, begin + CHUNK)
            hidden = hidden.detach()
            logits = []
            for step in inputs[chunk]:
                output, hidden = policy(step, hidden)
                logits.append(mask_logits(output, avail_actions))
            log_probabilities = functional.log_softmax(torch.stack(logits), dim=-1)
            entropy = -(targets[chunk] * log_probabilities).sum(-1)
            loss = (weights[chunk] * entropy).sum() / weights[chunk].sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
    return float(np.mean(losses))


def imitate(rounds: int, episodes_per_round: int, final_epochs: int, seed: int) -> RecurrentPolicy:
    """Alternate between driving and learning, then learn from everything with a falling rate."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = read_network()
    policy = RecurrentPolicy()
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE)
    episodes: list[Demonstrations] = []
    with tqdm(total=rounds * (episodes_per_round + 1) + final_epochs, unit="step") as progress:
        for round_ in range(rounds):
            teacher_share = 0.7**round_
            for _ in range(episodes_per_round):
                day = IMITATION_SEED + len(episodes)
                scenario = draw_scenario(rng)
                episodes.append(demonstrate(policy, network, scenario, day, teacher_share, rng))
                progress.update()
            for _ in range(EPOCHS_PER_ROUND):
                loss = train_epoch(policy, optimizer, episodes, rng)
            progress.update()
            progress.set_postfix(episodes=len(episodes), loss=f"{loss:.4f}")
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, final_epochs)
        for _ in range(final_epochs):
            loss = train_epoch(policy, optimizer, episodes, rng)
            schedule.step()
            progress.update()
            progress.set_postfix(episodes=len(episodes), loss=f"{loss:.4f}")
    return policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=18)
    parser.add_argument("--episodes", type=int, default=4, help="simulated hours per round")
    parser.add_argument("--final-epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=IMITATION_POLICY)
    arguments = parser.parse_args()
    policy = imitate(arguments.rounds, arguments.episodes, arguments.final_epochs, arguments.seed)
    torch.save(OrderedDict(policy.state_dict()), arguments.output)


if __name__ == "__main__":
    main()
