"""Every adversary against every junction of a network, judged."""

import argparse
from dataclasses import replace
from itertools import product

from tqdm import tqdm

from models.networks.network import Network
from models.networks.shipped import SHIPPED
from models.signals.monitor import make_monitors
from models.signals.safety import Limits, read_layers
from models.signals.signal import read_signals
from tests.unit.models.signals.adversaries import ADVERSARIES, obey
from tests.unit.models.signals.crossings import walked_junction
from tests.unit.models.signals.oracle import Bounds, judge

LIMITS = Limits(max_walk_wait_s=100.0)
CYCLIC = replace(LIMITS, cyclic=True)
SLICE = 20_000  # decisions that are judged at once


def play(decisions: int, seed: int, network: Network = SHIPPED, limits: Limits = LIMITS) -> int:
    """Make at least so many decisions, shared among junctions and adversaries; return how many.

    Raises:
        AssertionError, ConflictError: something was shown that must not be.
    """
    layers, signals = read_layers(limits, network), read_signals(network)
    monitors = make_monitors(network)
    bounds = Bounds(limits.min_green_s, limits.max_red_s, limits.max_walk_wait_s, limits.cyclic)
    made = 0
    each = -(-decisions // (len(layers) * len(ADVERSARIES)))
    for junction, layer in layers.items():
        signal = signals[junction]
        for ask in ADVERSARIES.values():
            shown = obey(layer, monitors[junction], ask, each, seed)
            judge(*shown, signal, bounds)
            made += each
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=100_000_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first slice")
    help = "play on a junction with pedestrian crossings only (default: also on the shipped ones)"
    parser.add_argument("--crossings", action="store_true", help=help)
    arguments = parser.parse_args()
    networks = (walked_junction(),) if arguments.crossings else (SHIPPED, walked_junction())
    with tqdm(total=arguments.decisions, unit="decision", unit_scale=True) as progress:
        seed = arguments.seed
        while progress.n < arguments.decisions:
            for network, limits in product(networks, (LIMITS, CYCLIC)):
                slice_size = SLICE * network.n_agents * len(ADVERSARIES)
                progress.update(play(slice_size, seed, network, limits))
            seed += 1


if __name__ == "__main__":
    main()
