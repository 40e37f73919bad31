"""examples/controller shows what the policy answers, and its own plan without the policy."""

import re

from models.networks.shipped import JUNCTIONS
from tests.cluster.examples.conftest import RunExample
from tests.support.raw_server import closed_port

PROGRAM = "controller/controller.py"
DECISIONS = 4
LINE = re.compile(r"(\S+): action (\d), shown (\d) \((.+)\)")


def run(run_example: RunExample, url: str) -> set[str]:
    """Check every junction's decisions, and return their sources."""
    printed = run_example(PROGRAM, "--url", url, "--decisions", str(DECISIONS), "--pause", "0.1")
    lines = [line for line in printed.splitlines() if not line.startswith("Hidden states")]
    assert len(lines) == DECISIONS * len(JUNCTIONS)
    decided = set()
    sources = set()
    for line in lines:
        match = LINE.fullmatch(line)
        assert match is not None, line
        name, action, shown, source = match.groups()
        assert max(int(action), int(shown)) < JUNCTIONS[name].n_phases
        decided.add(name)
        sources.add(source)
    assert decided == set(JUNCTIONS)
    return sources


def test_junctions_get_the_actions_of_the_policy(served, run_example):
    assert run(run_example, served) == {"policy"}


def test_the_own_plan_takes_over_after_the_fallback_red(served, run_example):
    sources = run(run_example, f"{served}/red")
    assert sources == {"own plan: fallback_mode (inference service down)"}


def test_a_fallback_by_the_gateways_plan_is_shown(served, run_example):
    sources = run(run_example, f"{served}/plan")
    assert all(re.fullmatch(r"weekday \d\d:\d\d", source) for source in sources)


def test_the_own_plan_takes_over_while_the_gateway_is_down(run_example):
    sources = run(run_example, closed_port())
    assert all(source.startswith("own plan: POST http://127.0.0.1") for source in sources)
