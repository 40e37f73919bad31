"""The cells of examples/notebook run in their order and plot what the service did."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

import matplotlib
import matplotlib.pyplot as plt

from lab.sim.controllers import policy_control, run
from models.policy.form import SHIPPED_POLICY
from tests.documentation import read


@pytest.fixture(scope="module")
def cells() -> list[dict[str, Any]]:
    notebook = json.loads(read("examples/notebook/rush_hour.ipynb"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.fixture(autouse=True)
def without_window() -> Iterator[None]:
    before = matplotlib.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


def test_the_notebook_is_kept_without_outputs(cells):
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


def test_cells_run_in_their_order(cells, served):
    namespace: dict[str, Any] = {}
    sources = ["".join(cell["source"]) for cell in cells]
    assert sum(source.count('"http://localhost:8000"') for source in sources) == 1
    for source in sources:
        exec(source.replace("http://localhost:8000", served), namespace)

    results, scenario = namespace["results"], namespace["scenario"]
    in_process = run(scenario, namespace["SEED"], policy_control(scenario, SHIPPED_POLICY))
    assert results["served policy"][1] == in_process
    over_time, per_vehicle = namespace["figure"].axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in over_time.lines}
    assert drawn == {name: queue for name, (queue, _) in results.items()}
    assert [bar.get_height() for bar in per_vehicle.patches] == [
        metrics.waiting_s for _, metrics in results.values()
    ]
