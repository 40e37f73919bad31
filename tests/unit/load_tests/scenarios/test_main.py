"""`make load` refuses impossible options before it does anything."""

from __future__ import annotations

import pytest

from load_tests.scenarios.__main__ import read_options
from load_tests.scenarios.scenarios import SCENARIOS


def test_help_lists_every_scenario(capsys):
    with pytest.raises(SystemExit):
        read_options(["--help"])
    shown = capsys.readouterr().out
    assert [name for name in SCENARIOS if f"\n    {name} " not in shown] == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["storm"], "'storm' is not one of controllers,"),
        (["--minutes", "0"], "'0' is not a number of minutes from 0.1 on"),
        (["--minutes", "nan"], "'nan' is not a number of minutes"),
        (["--minutes", "long"], "'long' is not a number of minutes"),
        (["--users", "0"], "'0' is not a number from 1 on"),
        (["--users", "-3"], "'-3' is not a number from 1 on"),
        (["--workers", "1.5"], "'1.5' is not a number from 1 on"),
        (["--workers", "2", "--remote-workers", "2"], "not allowed with"),
        (["soak", "records", "--ui"], "--ui serves one scenario"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as ended:
        read_options(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


def test_scenarios_come_in_the_order_they_are_named_in_and_once():
    assert read_options(["records", "soak", "records"]).scenarios == ["records", "soak"]
    assert read_options([]).scenarios == ["public"]
