"""Draws the stacks of a sampling profiler as a flame graph: width is time, calls stand on callers.

Stacks are lines of frames from the outermost on, divided by semicolons, and how often each was seen
(the folded form of B. Gregg, "The Flame Graph", ACM Queue 14 (2), 2016), as py-spy writes them:

    py-spy record --gil --rate 250 --duration 10 --format raw --output stacks.txt --pid REPLICA
    python -m load_tests.bench.comparison.flame stacks.txt docs/flame.png
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LEAST = 0.004  # of all time; what took less is left out
SHOWN = 0.025  # from here on there is room for a name
OURS, OTHERS = "#1b9e77", "#c7c7c7"
FRAME = re.compile(r"(?P<name>.+?) \((?P<file>.+?)(:\d+)?\)$")


@dataclass
class Node:
    """One function in one stack, with what it calls."""

    count: int = 0
    calls: dict[str, Node] = field(default_factory=dict)

    def add(self, frames: Sequence[str], count: int) -> None:
        self.count += count
        if frames:
            self.calls.setdefault(frames[0], Node()).add(frames[1:], count)


def read_stacks(text: str) -> Mapping[tuple[str, ...], int]:
    """Return how often each stack was seen, whatever line each function was at.

    Raises:
        ValueError: a line is no stack.
    """
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        stacks[tuple(re.sub(r":\d+\)$", ")", frame) for frame in frames.split(";"))] += int(count)
    return stacks


def tree_of(stacks: Mapping[tuple[str, ...], int], inside: str) -> Node:
    """Sum up the stacks above the outermost frame that has ``inside`` in it; leave others out."""
    root = Node()
    for frames, count in stacks.items():
        places = [place for place, frame in enumerate(frames) if inside in frame]
        if places:
            root.add(frames[places[0] + 1 :], count)
    return root


def bars_of(
    node: Node, left: float, depth: int, whole: int
) -> Iterator[tuple[str, float, float, int]]:
    """Yield name, left edge, width, and depth of every function below a node, as shares of all."""
    for name, called in sorted(node.calls.items()):
        width = called.count / whole
        if width >= LEAST:
            yield name, left, width, depth
            yield from bars_of(called, left, depth + 1, whole)
        left += width


def plot(root: Node, path: Path) -> None:
    bars = list(bars_of(root, 0.0, 0, root.count))
    height = 1 + max(depth for _, _, _, depth in bars)
    figure, axes = plt.subplots(figsize=(12, 0.26 * height + 0.4))
    for name, left, width, depth in bars:
        found = FRAME.match(name)
        ours = found is not None and found["file"].startswith(("deployments/", "models/"))
        colour = OURS if ours else OTHERS
        axes.barh(depth, width, 0.92, left, align="edge", color=colour, edgecolor="white", lw=0.5)
        if width > SHOWN:
            label = found["name"] if found else name
            room = int(width * 190)
            axes.text(left + 0.002, depth + 0.46, label[:room], va="center", fontsize=6.5)
    axes.set(xlim=(0, 1), ylim=(0, height))
    axes.axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stacks", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument(
        "--inside", default="Thread.run (threading.py", help="outermost frame to show"
    )
    options = parser.parse_args()
    try:
        root = tree_of(read_stacks(options.stacks.read_text()), options.inside)
    except (OSError, ValueError) as error:
        parser.error(f"{options.stacks}: {error}")
    if not root.count:
        parser.error(f"no stack of {options.stacks} has {options.inside!r} in it")
    plot(root, options.picture)


if __name__ == "__main__":
    main()
