"""Every attack is answered as it must be, and the next honest request is answered right."""

import re

import pytest

from tests.adversary.rows import ATTACKS

ROWS = [(place, attack) for attack in ATTACKS for place in attack.places]
NAMES = [f"{place} - {attack.name}" for place, attack in ROWS]


@pytest.mark.parametrize(("place", "attack"), ROWS, ids=NAMES)
def test_an_attack_is_answered_as_it_must_be_and_makes_the_steps_that_are_answered(
    place, attack, outcomes
):
    outcome = outcomes[place, attack.name]
    assert outcome.kinds(attack.form) == attack.expected(place)
    assert outcome.made is not None, "the honest request afterwards was not answered"
    assert outcome.made == outcome.predictions, "another reader has counted other requests"
    for answer in outcome.answers:
        assert b"Traceback" not in answer.body
        if place != "front":
            assert re.fullmatch("[!-~]{1,128}", answer.headers.get("x-request-id", "none"))
