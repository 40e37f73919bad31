"""What a junction shows follows from the states of its lamps, or from its decisions."""

from collections.abc import Iterable

import pytest

from lab.shadow.lamps import IN_CHANGE_S, Lamps, Stages
from lab.shadow.records import Record
from lab.shadow.records import Shown as Given
from models.signals.safety import Shown
from tests.unit.lab.shadow.street import HARBOUR, LANDWARD, QUAY, YELLOW, decision, lamps

assert HARBOUR.file is not None
PIER, CUSTOMS, *_ = HARBOUR.file.junctions


def shown(records: Iterable[Record]) -> Shown:
    """Return what is shown at the last record."""
    followed = Lamps(PIER)
    for record in records:
        followed.see(record)
    return followed.shown(record)


@pytest.mark.parametrize(
    ("state", "phase"),
    [("GrGrr", 0), ("GGrrr", 1), ("GGGrr", 0), ("Gryrr", None), ("Grrrr", None), ("rrrgg", 2)],
)
def test_a_phase_is_shown_while_all_its_links_are_green(state, phase):
    assert Stages(CUSTOMS).shown(state) == phase


def test_states_give_exact_times():
    records = [lamps(0, QUAY), decision(5, 0), lamps(7, YELLOW), lamps(10, LANDWARD)]
    assert shown(records[:2]) == (0, 5, [0, 5])
    assert shown([*records, decision(15, 1)]) == (1, 5, [8, 0])


def test_a_change_is_under_way_until_the_state_is_that_of_the_phase():
    records = [lamps(0, QUAY), lamps(7, YELLOW), decision(9, 1)]
    assert shown(records) == (1, IN_CHANGE_S, [2, 9])


def test_without_states_the_decisions_give_the_times():
    records = [decision(0, 0), decision(5, 0), decision(10, 1), decision(15, 1)]
    assert shown(records) == (1, 5, [5, 0])


def test_what_the_controller_reports_has_precedence():
    given = Given(phase=1, greenSeconds=3, redSeconds=(4, 0))
    record = decision(5, 1).model_copy(update={"shown": given})
    assert shown([lamps(0, QUAY), record]) == (1, 3, (4, 0))


def test_no_time_is_negative_where_records_are_late():
    assert shown([lamps(5, QUAY), decision(4.5, 0)]) == (0, 0, [0, 0])
