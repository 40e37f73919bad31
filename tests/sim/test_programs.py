"""Fixed time runs the program that is named, where a net has several."""

import re
from dataclasses import replace

import libsumo

from lab.sim.controllers import CONTROLS, open_run, run
from lab.sim.programs import own_programs
from tests.sim.towns import Town


def test_fixed_time_and_its_peers_take_the_program_that_is_named(tmp_path):
    town = Town(tmp_path)
    text = town.net.read_text()
    text = re.sub(r"<tlLogic.*?</tlLogic>", with_short_program, text, count=3, flags=re.DOTALL)
    town.net.write_text(text)
    usual, short = town.scenario, replace(town.scenario, program="short")
    ids = [each.id for each in usual.network.junctions]
    shown = {}
    for scenario in (usual, short):
        control = CONTROLS["fixed time"](scenario)
        with open_run(scenario, 1, control) as (environment, _, _):
            environment.step({})
            shown[scenario] = [libsumo.trafficlight.getProgram(each) for each in ids]
    assert shown[usual] == ["0"] * 4
    assert shown[short] == ["short"] * 3 + ["0"]  # one signal does not have it
    assert own_programs(usual).elements == ()
    for name in ("fixed time", "actuated", "Webster"):
        metrics = [run(each, 1, CONTROLS[name](each)) for each in (usual, short)]
        assert metrics[0].delay_s != metrics[1].delay_s


def with_short_program(element: re.Match[str]) -> str:
    """Return a program with another one before it, which has short greens and long yellows."""
    text = element.group().replace('programID="0"', 'programID="short"')
    text = re.sub(r'duration="[0-9]{2}"', 'duration="12" minDur="12" maxDur="12"', text)
    return re.sub(r'duration="3"', 'duration="5"', text) + element.group()
