"""Networks as large as one likes, whose junctions are as different as those of the documents."""

from __future__ import annotations

import random

from models.networks.form import JunctionEntry, Lane, NetworkFile, Phase

WIDEST = 4, 14  # phases and lanes of the first junction, as of the documents' largest one


def made_up_city(n: int, seed: int = 0) -> NetworkFile:
    """Return a network of n junctions, the same for the same arguments."""
    chance = random.Random(seed)
    junctions = []
    for index in range(n):
        phases, lanes = WIDEST if index == 0 else (chance.randint(2, 4), chance.randint(4, 14))
        junctions.append(
            JunctionEntry(
                id=f"junction-{index}",
                agent_index=index,
                phases=(Phase(),) * phases,
                lanes=tuple(
                    Lane(id=f"junction-{index}_{lane}", capacity=chance.randint(8, 45))
                    for lane in range(lanes)
                ),
            )
        )
    return NetworkFile(name=f"made-up city of {n}", junctions=tuple(junctions))
