"""Draws the import graph of each package: its size, its floors, its circles.

python -m tests.import_graph
python -m tests.import_graph --mermaid deployments.inference
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import grimp
from rich.console import Console
from rich.table import Table

ROOTS = ("greenwave", "models", "lab", "deployments", "serve_app", "tools", "load_tests", "tests")

Arrows = Mapping[str, frozenset[str]]
"""By importer what it imports; every node of the graph is a key."""


@dataclass(frozen=True)
class Shape:
    """What a newcomer meets in a graph.

    Attributes:
        nodes: modules, or rooms.
        arrows: from an importer to what it imports.
        floors: nodes on the longest way down; of a graph with circles, what is left of it.
        circles: groups of nodes that import each other, directly or in a round.
    """

    nodes: int
    arrows: int
    floors: int
    circles: list[list[str]]


def build_graph() -> grimp.ImportGraph:
    """Read all imports of the project, those for type checks included."""
    return grimp.build_graph(*ROOTS, cache_dir=None)


def packages_of(graph: grimp.ImportGraph) -> list[str]:
    """Return the packages that have something inside, each before those inside of it."""
    return sorted(module for module in graph.modules if graph.find_children(module))


def between_modules(graph: grimp.ImportGraph, package: str) -> Arrows:
    """Return the imports between all modules of a package, however deep they are."""
    modules = {package} | graph.find_descendants(package)
    return {
        module: frozenset(graph.find_modules_directly_imported_by(module) & modules)
        for module in modules
    }


def between_rooms(graph: grimp.ImportGraph, package: str) -> Arrows:
    """Return the imports between the rooms of a package: the modules and packages right in it."""
    rooms = graph.find_children(package)
    room_of = {module: room for room in rooms for module in {room, *graph.find_descendants(room)}}
    arrows: dict[str, set[str]] = {room: set() for room in rooms}
    for module, room in room_of.items():
        imported = graph.find_modules_directly_imported_by(module) & room_of.keys()
        arrows[room] |= {room_of[each] for each in imported} - {room}
    return {room: frozenset(imported) for room, imported in arrows.items()}


def measure(arrows: Arrows) -> Shape:
    """Measure a graph."""
    circles = find_circles(arrows)
    in_circles = {node for circle in circles for node in circle}

    @cache
    def floors_below(node: str) -> int:
        return 1 + max(map(floors_below, arrows[node] - in_circles), default=0)

    floors = max(map(floors_below, arrows.keys() - in_circles), default=0)
    return Shape(len(arrows), sum(map(len, arrows.values())), floors, circles)


def find_circles(arrows: Arrows) -> list[list[str]]:
    """Return the groups of nodes each of which can be reached from every other."""
    reached = {node: set(_reach(arrows, node)) for node in arrows}
    groups = {
        frozenset(other for other in reached[node] if node in reached[other])
        for node in arrows
        if node in reached[node]
    }
    return sorted(map(sorted, groups))


def _reach(arrows: Arrows, start: str) -> Iterator[str]:
    seen: set[str] = set()
    ahead = [*arrows[start]]
    while ahead:
        node = ahead.pop()
        if node not in seen:
            seen.add(node)
            ahead += arrows[node]
            yield node


def draw(graph: grimp.ImportGraph, package: str) -> str:
    """Draw the rooms of a package as a Mermaid flowchart."""
    arrows = between_rooms(graph, package)
    names = {room: room.rpartition(".")[2] for room in arrows}
    lines = [f"    {names[room]} --> {names[each]}" for room in arrows for each in arrows[room]]
    joined = {end for room in arrows if arrows[room] for end in (room, *arrows[room])}
    alone = [f"    {names[room]}" for room in arrows.keys() - joined]
    return "\n".join(["flowchart TD", *sorted(alone), *sorted(lines)])


def tabulate(graph: grimp.ImportGraph) -> Table:
    """Tabulate every package of the product and of the benchmarks."""
    table = Table("package", title="imports between all files, and between the rooms of a package")
    for name in ("files", "arrows", "floors", "circles", "rooms", "arrows", "floors", "circles"):
        table.add_column(name, justify="right")
    for package in packages_of(graph):
        if package.split(".")[0] != "tests":
            shapes = (
                measure(between_modules(graph, package)),
                measure(between_rooms(graph, package)),
            )
            cells = [(s.nodes, s.arrows, s.floors, len(s.circles)) for s in shapes]
            table.add_row(package, *(str(figure) for cell in cells for figure in cell))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mermaid", metavar="PACKAGE", help="draw the rooms of one package")
    options = parser.parse_args()
    graph = build_graph()
    if options.mermaid and options.mermaid not in packages_of(graph):
        parser.error(f"{options.mermaid} is no package of the project")
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 120)
    console.print(draw(graph, options.mermaid) if options.mermaid else tabulate(graph))


if __name__ == "__main__":
    main()
