"""Every option of a user's SUMO configuration is kept, replaced or refused."""

from pathlib import Path

import pytest

from lab.sim.configuration import SumoFiles, judge, read_sumocfg, sumo_options
from lab.sim.scenario import InvalidScenarioError
from models.networks.file import InvalidNetworkError

FILES = '<net-file value="a.net.xml"/><route-files value="b.rou.xml"/><end value="60"/>'


def read(folder: Path, *options: str) -> SumoFiles:
    path = folder / "town.sumocfg"
    path.write_text(f"<configuration>{FILES}{''.join(options)}</configuration>")
    return read_sumocfg(path)


def test_each_option_of_the_installed_sumo_is_judged():
    known = set(sumo_options().values())
    assert len(known) > 400
    assert [option.name for option in known if judge(option)[0] == "unknown"] == []


def verdicts(*names: str) -> list[str]:
    return [judge(sumo_options()[name])[0] for name in names]


def test_what_decides_how_vehicles_move_is_kept():
    kept = verdicts("step-length", "scale", "lateral-resolution", "device.rerouting.period", "w")
    assert set(kept) == {"kept"}


def test_no_option_can_write_files_hide_vehicles_or_open_a_port():
    outputs = [name for name in sumo_options() if "output" in name or name.startswith("log")]
    hiding = verdicts("max-depart-delay", "device.tripinfo.probability", "device.vehroute.explicit")
    jams = verdicts("time-to-teleport", "time-to-teleport.highways", "time-to-teleport.remove")
    assert {*verdicts(*outputs), *hiding, *jams} == {"replaced"}
    assert verdicts("remote-port", "random", "save-configuration") == ["replaced"] * 3


def test_kept_options_become_arguments_and_their_files_are_inputs(tmp_path, monkeypatch):
    monkeypatch.setenv("GREENWAVE_TEST_WEIGHTS", "w.xml")
    configured = read(
        tmp_path,
        '<step-length v="0.5"/><processing><scale>1.5</scale></processing><random value="true"/>',
        '<weights value="${GREENWAVE_TEST_WEIGHTS}, more/v.xml"/><mesosim value="false"/>',
    ).configured
    weights = tmp_path / "w.xml", tmp_path / "more" / "v.xml"
    assert configured.arguments == (
        *("--step-length=0.5", "--scale=1.5"),
        f"--weight-files={weights[0]},{weights[1]}",
    )
    assert configured.files == weights
    assert configured.replaced == ("random",)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ('<mesosim value="true"/>', "mesosim is refused, as the mesoscopic model"),
        ('<load-state value="s.xml"/>', "load-state is refused, as a saved state"),
        ('<tls.all-off value="1"/>', "tls.all-off is refused, as without signals"),
        ('<step-length value="0.3"/>', "step-length is 0.3 s, but signals change at whole seconds"),
        ('<step-length value="2"/>', "step-length is 2 s"),
        ('<begin value="0.5"/>', "begin is 0.5, but must be in whole seconds"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, option, sentence):
    with pytest.raises(InvalidScenarioError, match=sentence):
        read(tmp_path, option)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ('<foo value="1"/>', "SUMO has no option foo"),
        ('<scale value="1"/><scale value="2"/>', "the option scale is set twice"),
    ],
)
def test_options_that_sumo_refuses_are_named(tmp_path, options, sentence):
    with pytest.raises(InvalidNetworkError, match=sentence):
        read(tmp_path, options)
