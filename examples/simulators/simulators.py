"""Drive many environments in several processes by the served policy, and count decisions."""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from greenwave.client import Client, GreenwaveError, Timeouts, VectorPolicy
from models.networks.shipped import JUNCTIONS

ARRIVALS, DEPARTURES = 0.05, 0.2  # of a lane's capacity in a step
EPISODE_STEPS = 200  # on average
IN_TIME = Timeouts(attempt_s=10, total_s=30)


class Queues:
    """Toy traffic on the shipped network, as a vector environment of ``n`` environments."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.phases = {name: np.zeros(self.n, int) for name in JUNCTIONS}
        self.queues = {
            name: np.zeros((self.n, each.obs_size - each.n_phases - 1), np.float32)
            for name, each in JUNCTIONS.items()
        }
        return self.observe()

    def step(self, actions):
        """Return observations, and which environments have begun a new episode."""
        ended = self.random.random(self.n) < 1 / EPISODE_STEPS
        for name, queues in self.queues.items():
            self.phases[name] = np.where(ended, 0, actions[name])
            lanes = np.arange(queues.shape[1])
            green = lanes % JUNCTIONS[name].n_phases == self.phases[name][:, None]
            queues += 2 * ARRIVALS * self.random.random(queues.shape) - DEPARTURES * green
            queues[ended] = 0
            np.clip(queues, 0, 1, out=queues)
        return self.observe(), ended

    def observe(self):
        """Return the phase as one-hot, whether it may change, and the lanes' queues."""
        may_change = np.ones((self.n, 1))
        return {
            name: np.hstack(
                [np.eye(each.n_phases)[self.phases[name]], may_change, self.queues[name]]
            )
            for name, each in JUNCTIONS.items()
        }


def drive(url: str, n: int, steps: int, process: int):
    """Return the decisions of one process, and when it began and ended."""
    environments = Queues(n, seed=process)
    with Client(url, timeouts=IN_TIME) as client:
        policy = VectorPolicy(client, n, f"simulators-{process}")
        observations = environments.reset()
        actions = policy.act(observations)  # the first steps create the states
        began = time.time()
        for _ in range(steps):
            observations, ended = environments.step(actions)
            policy.reset(ended)
            actions = policy.act(observations)
        return n * len(JUNCTIONS) * steps, began, time.time()


def main(url: str, environments: int, processes: int, steps: int) -> None:
    n = environments // processes
    with ProcessPoolExecutor(processes) as pool:
        driven = list(pool.map(partial(drive, url, n, steps), range(processes)))
    decisions, begins, ends = zip(*driven, strict=True)
    per_s = sum(decisions) / (max(ends) - min(begins))
    print(f"{n * processes} environments: {sum(decisions)} decisions, {per_s:.0f} per second")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--environments", type=int, default=256)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    try:
        main(**vars(parser.parse_args()))
    except GreenwaveError as error:
        sys.exit(str(error))
