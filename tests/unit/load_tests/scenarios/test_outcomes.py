"""A refusal for load is distinguished from a failure, and is one where it is not expected."""

from __future__ import annotations

import pytest

from greenwave.client.core.call import NoReply, Reply
from load_tests.scenarios.results import REFUSED, classify

OVERLOADED = Reply(503, {"x-error-code": "overloaded", "retry-after": "2"}, b"")
NEVER = Reply(503, {"x-error-code": "overloaded"}, b"")
ANOTHER_503 = Reply(503, {"x-error-code": "model_not_loaded", "retry-after": "2"}, b"")
AWAY = NoReply(False, "No connection")


def test_a_proper_refusal_is_a_route_of_its_own_where_it_may_be():
    assert classify(OVERLOADED, may_be_refused=True) == (REFUSED, None)


@pytest.mark.parametrize(
    ("outcome", "may_be_refused", "reason"),
    [
        (OVERLOADED, False, "status 503 overloaded"),
        (NEVER, True, "status 503 overloaded without Retry-After"),
        (ANOTHER_503, True, "status 503 model_not_loaded"),
        (Reply(429, {"retry-after": "2"}, b""), True, "status 429"),
        (Reply(404, {}, b""), True, "status 404"),
        (AWAY, True, "No connection"),
    ],
)
def test_anything_else_is_a_failure_that_says_why(outcome, may_be_refused, reason):
    classified = classify(outcome, may_be_refused)
    assert (classified.suffix, str(classified.failure)) == ("", reason)


def test_an_answer_is_no_failure():
    assert classify(Reply(201, {}, b""), may_be_refused=False) == ("", None)
