"""Makes a policy with random weights for a network: to try the way into service, not to drive.

python -m lab.train.untrained configs/harbour.json .data/harbour.untrained.th
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from lab.train.policy_network import RecurrentPolicy, write_policy
from models.networks.file import InvalidNetworkError
from models.networks.network import Network, read_network
from models.policy.form import PolicyForm

_SCALE = 3.0  # so large that different observations give clearly different confidences


def save_untrained(path: Path, network: Network) -> None:
    """Write a policy file in the form of :mod:`models.policy.form`."""
    torch.manual_seed(0)
    policy = RecurrentPolicy(PolicyForm.of(network))
    policy.load_state_dict({name: each * _SCALE for name, each in policy.state_dict().items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_policy(policy, path)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", type=Path, help="network file")
    parser.add_argument("output", type=Path, help="policy file to write")
    options = parser.parse_args()
    try:
        network = read_network(options.network)
        save_untrained(options.output, network)
    except InvalidNetworkError as error:
        parser.error(str(error))
    except OSError as error:
        sys.exit(f"{options.output}: {error.strerror}")
    said = f"{options.output} has random weights for {network.name}: they control traffic badly.\n"
    sys.stdout.write(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
