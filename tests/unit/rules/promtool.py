"""Series in, values of expressions out, by Prometheus' own tool for testing rules."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from load_tests.harness.shipped import ROOT

RULES = sorted((ROOT / "configs" / "rules").glob("*.yml"))
INTERVAL_S = 15

Values = Mapping[str, float]
"""By the labels but the name, as ``{a="b"}``; empty for none."""


def promtool() -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool on PATH; Debian: apt install prometheus")
    return program


def check(folder: Path, series: Mapping[str, str], at: str, expected: Mapping[str, Values]) -> None:
    """Fail unless each expression has exactly these values, to 0.001, at a time such as ``5m``.

    Args:
        series: values in promtool's notation, ``0+60x20`` for 60 more in each interval of 15 s.
    """
    tests = [
        {
            "expr": f"round({expression}, 0.001)",
            "eval_time": at,
            "exp_samples": [{"labels": name, "value": value} for name, value in values.items()],
        }
        for expression, values in expected.items()
    ]
    document = {
        "rule_files": [str(path) for path in RULES],
        "evaluation_interval": f"{INTERVAL_S}s",
        "tests": [
            {
                "interval": f"{INTERVAL_S}s",
                "input_series": [{"series": s, "values": v} for s, v in series.items()],
                "promql_expr_test": tests,
            }
        ],
    }
    path = folder / "test.yml"
    path.write_text(yaml.safe_dump(document))
    done = subprocess.run([promtool(), "test", "rules", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
