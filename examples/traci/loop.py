"""Drive SUMO with actions of the inference service: a bare TraCI loop and plain HTTP."""

import argparse
import sys
import tempfile
from pathlib import Path

import httpx
import libsumo as traci  # "import traci" has the same calls and runs SUMO in its own process

from lab.sim.observation import encode_observation
from lab.sim.scenario import DECISION_S
from lab.sim.shipped import MIN_GREEN_S, MORNING_RUSH_S, YELLOW_S, shipped_demand
from lab.sim.signal import TimedSignal
from models.networks.shipped import NET_FILE, SHIPPED_FILE

RUN = {"X-Simulation-Run": "traci-example"}  # separate hidden states


def observe(junction, signal: TimedSignal) -> list[float]:
    standing = [traci.lane.getLastStepHaltingNumber(lane.id) for lane in junction.lanes]
    capacities = [lane.capacity for lane in junction.lanes]
    n_phases = len(junction.phases)
    observed = encode_observation(signal.phase, n_phases, signal.may_change, standing, capacities)
    return observed.tolist()


def ask(http: httpx.Client, path: str, question: dict | None = None) -> dict | None:
    """Return the service's answer; None while it is away. A refusal ends the loop."""
    try:
        answer = http.post(path, json=question)
    except httpx.TransportError:
        return None
    if answer.is_client_error:
        sys.exit(f"{http.base_url} refuses {path}: {answer.text}")
    return answer.json() if answer.is_success else None


def main(url: str, seconds: int, seed: int) -> None:
    junctions = SHIPPED_FILE.junctions
    signals = {
        each.id: TimedSignal([phase.state for phase in each.phases], YELLOW_S, 0, MIN_GREEN_S)
        for each in junctions
    }
    with tempfile.TemporaryDirectory() as folder, httpx.Client(base_url=url, headers=RUN) as http:
        demand = shipped_demand(MORNING_RUSH_S, seconds)
        (routes,) = demand.route_files(seed, Path(folder))
        options = f"-n {NET_FILE} -r {routes} -b {demand.begin_s} --seed {seed}"
        traci.start(["sumo", *options.split(), "--time-to-teleport=-1", "--no-step-log"])
        if ask(http, "/reset_hidden") is None:
            sys.exit(f"No service answers at {url}. Start it with: make up")
        arrived = 0
        for second in range(seconds):
            if second % DECISION_S == 0:
                for each in junctions:
                    question = {"junction_id": each.id, "obs_data": observe(each, signals[each.id])}
                    if answer := ask(http, "/predict_action", question):
                        signals[each.id].request(answer["action"])
            for name, signal in signals.items():
                traci.trafficlight.setRedYellowGreenState(name, signal.advance())
            traci.simulationStep()
            arrived += traci.simulation.getArrivedNumber()
            if second % 60 == 59:
                vehicles = traci.vehicle.getIDCount()
                print(f"minute {second // 60 + 1}: {vehicles} vehicles, {arrived} arrived")
        traci.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--seed", type=int, default=1)
    main(**vars(parser.parse_args()))
