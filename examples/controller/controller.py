"""Control the five shipped junctions: ask the gateway every five seconds and show its answer."""

import argparse
import asyncio
import os
import random
import sys
import time

from greenwave.client import AsyncClient, GreenwaveError, Timeouts, UnavailableError

DECISION_S, MIN_GREEN_S, YELLOW_S = 5, 5, 3
PLAN_S = 30  # how long the fixed-time plan shows each phase
JUNCTIONS = {"joinedS_265580996_300839357": (4, 14)}  # green phases, incoming lanes
JUNCTIONS |= dict.fromkeys(["300839359", "265580972", "1270712555", "8541180897"], (2, 5))


class Junction:
    """A signal and its detectors. Replace both with those of your hardware."""

    def __init__(self, name: str, n_phases: int, n_lanes: int) -> None:
        self.name, self.n_phases, self.n_lanes = name, n_phases, n_lanes
        self.phase, self.green_s = 0, 0

    def observe(self) -> list[int]:
        """Return the phase as one-hot, whether it may change, and standing vehicles by lane."""
        one_hot = [int(phase == self.phase) for phase in range(self.n_phases)]
        queues = [random.randrange(6) for _ in range(self.n_lanes)]
        return [*one_hot, int(self.green_s >= MIN_GREEN_S), *queues]

    def show(self, phase: int) -> None:
        """Change to a phase after yellow, unless the present one has its minimum green to run."""
        if phase != self.phase and self.green_s >= MIN_GREEN_S:
            self.phase, self.green_s = phase, -YELLOW_S
        self.green_s += DECISION_S


async def control(run, junction: Junction) -> None:
    """Show the phase of the policy, or of a fixed-time plan while the policy is unavailable."""
    phase, source = int(time.time()) // PLAN_S % junction.n_phases, "own plan"
    try:
        decision = await run.act(junction.name, junction.observe(), vehicle_counts=True)
    except UnavailableError as error:  # the gateway did not answer
        source += f": {error}"
    else:
        if decision.is_fallback and decision.fallback_plan is None:  # RED: do not show it for long
            source += f": {decision.status}"
        else:
            phase, source = decision.action, decision.fallback_plan or "policy"
    junction.show(phase)
    print(f"{junction.name}: action {phase}, shown {junction.phase} ({source})", flush=True)


async def main(url: str, decisions: int, pause_s: float) -> None:
    junctions = [Junction(name, *sizes) for name, sizes in JUNCTIONS.items()]
    password, in_time = os.environ["GREENWAVE_PASSWORD"], Timeouts(total_s=4)
    async with AsyncClient(url, "operator", password, timeouts=in_time) as client:
        run = client.run("controller-example")
        try:
            await run.reset()
        except UnavailableError as error:
            print(f"Hidden states are not reset: {error}")
        for _ in range(decisions):
            await asyncio.gather(asyncio.sleep(pause_s), *(control(run, j) for j in junctions))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://localhost:8080")
    parser.add_argument("--decisions", type=int, default=12)
    parser.add_argument("--pause", type=float, default=DECISION_S, help="seconds per decision")
    options = vars(parser.parse_args()).values()
    if "GREENWAVE_PASSWORD" not in os.environ:
        sys.exit("Set GREENWAVE_PASSWORD to the password of the user operator.")
    try:
        asyncio.run(main(*options))
    except GreenwaveError as error:  # such as a wrong password
        sys.exit(str(error))
