"""Who may import whom, as the architecture says; the rules stand in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from tests.import_graph import (
    Arrows,
    between_modules,
    between_rooms,
    build_graph,
    draw,
    find_circles,
    measure,
    packages_of,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return build_graph()


def test_import_rules_are_kept():
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


def test_no_package_has_a_circle_of_modules_or_of_rooms(graph):
    packages = packages_of(graph)
    assert {"models", "lab", "deployments", "deployments.inference", "serve_app"} <= set(packages)
    circles = [
        circle
        for package in packages
        for arrows in (between_modules(graph, package), between_rooms(graph, package))
        for circle in find_circles(arrows)
    ]
    assert circles == []


def arrows_of(**imported: str) -> Arrows:
    return {importer: frozenset(names) for importer, names in imported.items()}


def test_the_floors_are_the_longest_way_down():
    shape = measure(arrows_of(a="bd", b="c", c="d", d=""))
    assert (shape.nodes, shape.arrows, shape.floors, shape.circles) == (4, 4, 4, [])


def test_every_circle_is_found_and_nothing_that_only_leads_to_one():
    assert find_circles(arrows_of(a="b", b="c", c="b", d="e", e="f", f="d")) == [
        ["b", "c"],
        ["d", "e", "f"],
    ]


def toy_graph() -> grimp.ImportGraph:
    graph = grimp.ImportGraph()
    for module in ("house", "house.attic", "house.attic.a", "house.attic.b", "house.cellar"):
        graph.add_module(module)
    graph.add_import(importer="house.attic.a", imported="house.cellar")
    graph.add_import(importer="house.attic.a", imported="house.attic.b")
    return graph


def test_rooms_see_each_other_through_what_is_in_them():
    graph = toy_graph()
    assert between_rooms(graph, "house") == {
        "house.attic": {"house.cellar"},
        "house.cellar": frozenset(),
    }
    graph.add_import(importer="house.cellar", imported="house.attic.b")
    assert find_circles(between_modules(graph, "house")) == []
    assert find_circles(between_rooms(graph, "house")) == [["house.attic", "house.cellar"]]


def test_the_drawing_has_an_arrow_per_pair_of_rooms():
    assert draw(toy_graph(), "house") == "flowchart TD\n    attic --> cellar"
    assert draw(toy_graph(), "house.attic") == "flowchart TD\n    a --> b"
