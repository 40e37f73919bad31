"""The example of your own city, run as its README says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "own_city" / "own_city.sh"


@pytest.mark.timeout(900)
def test_it_leads_from_a_net_to_a_policy_and_a_page_that_compares_it(tmp_path):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(SCRIPT), str(tmp_path / "town")],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "town" / "evaluation" / "evaluation.html").read_text()
    assert all(name in page for name in ("fixed time", "max pressure", "greedy", "policy"))
    assert (tmp_path / "town" / "training" / "best.th").exists()
    assert (tmp_path / "town" / "town.svg").stat().st_size > 10_000
