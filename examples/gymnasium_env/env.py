"""The shipped network as a Gymnasium environment, and the served policy as its agent."""

import argparse

import gymnasium
from gymnasium import spaces

from greenwave.client import Client, FailedPrediction
from lab.sim.environment import Environment
from lab.sim.shipped import DECISION_S, MORNING_RUSH_S, shipped_demand, shipped_scenario
from models.networks.shipped import SHIPPED


class TrafficEnv(gymnasium.Env):
    """All junctions at once: observations and actions are dicts by junction id.

    The reward is minus the number of standing vehicles. Episodes are truncated after ``seconds``.
    """

    def __init__(self, seconds: int = 900) -> None:
        junctions = SHIPPED.junctions.values()
        self.observation_space = spaces.Dict(
            {each.id: spaces.Box(0, 1, (each.obs_size,)) for each in junctions}
        )
        self.action_space = spaces.Dict(
            {each.id: spaces.Discrete(each.n_phases) for each in junctions}
        )
        self.simulation = Environment(shipped_scenario(shipped_demand(MORNING_RUSH_S, seconds)))
        self._lanes = [lane.id for each in SHIPPED.file.junctions for lane in each.lanes]

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        return self.simulation.reset(int(self.np_random.integers(1_000_000))), {}

    def step(self, actions):
        observations = self.simulation.step(actions)
        reward = -float(sum(map(self.simulation.standing, self._lanes)))
        return observations, reward, False, self.simulation.is_over, {}

    def close(self) -> None:
        self.simulation.close()


def main(url: str, steps: int, seed: int) -> None:
    with Client(url) as client:
        run = client.inference.run("gymnasium-example")
        run.reset()
        env = TrafficEnv(steps * DECISION_S)
        observations, _ = env.reset(seed=seed)
        over = False
        while not over:
            asked = [(name, each.tolist()) for name, each in observations.items()]
            actions = {}
            for answer in run.predict_many(asked):
                if not isinstance(answer, FailedPrediction):  # a junction left out keeps its phase
                    actions[answer.junction_id] = answer.action
            observations, reward, _, over, _ = env.step(actions)
            print(f"actions {list(actions.values())}, reward {reward:.0f}")
        env.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    main(**vars(parser.parse_args()))
