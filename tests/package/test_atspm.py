"""The package ``atspm`` reads what ``greenwave lab shadow events`` exports.

It is installed into a separate environment, as its libraries are large. ``atspm.txt`` pins them:
atspm 2.6.1 does not work with DuckDB 2.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from serve_app.cli.main import main
from tests.unit.lab.shadow.street import HARBOUR_FILE, cycles, loop

pytestmark = pytest.mark.timeout(600)

REQUIREMENTS = Path(__file__).with_name("atspm.txt")
READS = """
import json, sys
from atspm import SignalDataProcessor

(folder,) = sys.argv[1:]
measures = {
    "has_data": {"no_data_min": 5, "min_data_points": 3},
    "arrival_on_green": {"latency_offset_seconds": 0},
    "terminations": {},
    "splits": {},
    "timeline": {"min_duration": 1, "cushion_time": 1},
}
with SignalDataProcessor(
    raw_data=f"{folder}/events.csv",
    detector_config=f"{folder}/detectors.csv",
    bin_size=15,
    verbose=0,
    controller_type="maxtime",
    aggregations=[{"name": name, "params": params} for name, params in measures.items()],
) as processor:
    processor.load()
    processor.aggregate()
    columns = dict.fromkeys(measures, "*") | {"timeline": "EventClass, Duration, IsValid"}
    tables = {
        name: processor.conn.query(f"SELECT {columns[name]} FROM {name} ORDER BY ALL").fetchall()
        for name in measures
    }
print(json.dumps(tables, default=str))
"""
INSTALL_S = 300  # with the tests within the limit of one
BIN = "2001-09-09 02:00:00"
N_CYCLES = 15  # a quarter of an hour


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("atspm")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    install = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "install", "--quiet"]
    try:
        subprocess.run(
            [*install, "--requirement", str(REQUIREMENTS)], check=True, timeout=INSTALL_S
        )
    except subprocess.SubprocessError:
        pytest.skip("atspm is not installed: pip could not fetch what atspm.txt pins")
    return folder / "bin" / "python"


def read(python: Path, folder: Path) -> dict[str, list[list[Any]]]:
    """Export a street of whole cycles, and return the tables that atspm makes of it.

    In each cycle, three vehicles arrive at the quay road: two in its green, one in its red.
    """
    arrivals = [60.0 * cycle + offset_s for cycle in range(N_CYCLES) for offset_s in (5, 20, 40)]
    loops = [loop(each + after, "pier_n_0", not after) for each in arrivals for after in (0, 0.5)]
    records = sorted([*cycles(N_CYCLES), *loops], key=lambda record: record.time)
    street, events = folder / "records.jsonl", folder / "events"
    street.write_text("".join(f"{each.model_dump_json(exclude_none=True)}\n" for each in records))
    call = ["lab", "shadow", "events", str(street), "--network", str(HARBOUR_FILE)]
    assert main([*call, "--output", str(events)]) == 0
    ran = subprocess.run([str(python), "-c", READS, str(events)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    tables: dict[str, list[list[Any]]] = json.loads(ran.stdout.splitlines()[-1])
    return tables


def test_atspm_finds_the_splits_arrivals_and_terminations_of_a_fixed_program(python, tmp_path):
    tables = read(python, tmp_path)
    of_bin = {name: [row[1:] for row in rows if row[0] == BIN] for name, rows in tables.items()}
    assert of_bin["has_data"] == [[1]]
    # the first green of the quay road began before the log
    assert of_bin["terminations"] == [[1, 1, "ForceOff", 14], [1, 2, "ForceOff", 15]]
    assert of_bin["splits"] == [[1, 301, 14, 30.0], [1, 302, 14, 30.0]]
    ((device, phase, arrivals, on_green),) = of_bin["arrival_on_green"]
    assert (device, phase, arrivals) == (1, 1, 45)
    assert on_green == pytest.approx(28 / 45)


def test_every_interval_of_the_timeline_is_valid_and_as_long_as_shown(python, tmp_path):
    intervals = {tuple(row) for row in read(python, tmp_path)["timeline"]}
    lengths = {("Green", 25.0), ("Yellow", 3.0), ("Red", 2.0), ("Split", 30.0)}
    assert intervals == {(*each, True) for each in lengths}
