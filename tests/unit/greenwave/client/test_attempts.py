"""A call is sent again where that does nothing twice, and never beyond its time."""

import pytest

from greenwave.client import (
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    Retries,
    Timeouts,
    TooManyLoginsError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
    UnusableAnswerError,
)
from greenwave.client.call import Effect, NoReply, Reply
from tests.unit.greenwave.client.play import LOST, REFUSED, Play, answer, step, text, unavailable

Came = Reply | NoReply
MAYBE_DONE: list[Came] = [
    LOST,
    unavailable("outcome_unknown"),
    unavailable("outcome_unknown", None, status=500),
    text(500, "Internal Server Error"),
    text(404, "Not Found"),
    text(502, kind="text/html"),
    answer(503, {"message": "Service unavailable"}, retry_after=1),
]
FAULT = {"type": "missing", "loc": ["body", "x"], "msg": "is bad"}
NOT_DONE: list[Came] = [
    REFUSED,
    unavailable("overloaded"),
    answer(408, {"detail": "The request body did not arrive in time"}),
]


@pytest.mark.parametrize("failed", [*MAYBE_DONE, *NOT_DONE])
@pytest.mark.parametrize("effect", [Effect.IDEMPOTENT, Effect.NONE])
def test_what_passes_is_tried_again_with_the_same_request(failed, effect):
    play = Play([failed, failed, answer(body="done")])
    assert play.perform(step(effect)) == "done"
    assert len({send.url for send in play.sent}) == 1
    assert len(play.sent) == 3


@pytest.mark.parametrize("failed", MAYBE_DONE)
def test_what_must_not_be_done_twice_is_not_sent_again_when_it_may_have_been_done(failed):
    play = Play([failed])
    with pytest.raises(UnknownOutcomeError, match="may have been done or not"):
        play.perform(step(Effect.NOT_IDEMPOTENT))


@pytest.mark.parametrize("failed", NOT_DONE)
def test_what_must_not_be_done_twice_is_sent_again_when_it_surely_was_not_done(failed):
    assert Play([failed, answer(body="done")]).perform(step(Effect.NOT_IDEMPOTENT)) == "done"


@pytest.mark.parametrize(
    ("outcomes", "effect", "is_unknown"),
    [
        ([LOST] * 4, Effect.IDEMPOTENT, True),
        ([LOST, *[REFUSED] * 3], Effect.IDEMPOTENT, True),
        ([REFUSED] * 4, Effect.IDEMPOTENT, False),
        ([LOST] * 4, Effect.NONE, False),
    ],
    ids=["no answer", "one lost answer", "no connection", "a question"],
)
def test_without_a_result_the_outcome_is_unknown_where_something_may_have_been_done(
    outcomes, effect, is_unknown
):
    with pytest.raises(UnavailableError) as raised:
        Play(outcomes).perform(step(effect))
    error = raised.value
    assert (isinstance(error, UnknownOutcomeError), error.attempts) == (is_unknown, 4)
    assert getattr(error, "key", None) == ("key-1" if is_unknown else None)


@pytest.mark.parametrize(
    ("refusal", "error", "message"),
    [
        (answer(400, {"detail": "obs_data has 20 values"}), InvalidRequestError, "has 20 values"),
        (answer(422, {"detail": [FAULT]}), InvalidRequestError, "body.x: is bad"),
        (answer(422, {"detail": "It was used", "code": "key_reused"}), KeyReusedError, "was used"),
        (answer(413, {"message": "Too large"}), InvalidRequestError, "Too large"),
        (answer(401, {"message": "Invalid username"}), UnauthorizedError, "Invalid username"),
        (answer(404, {"errorMessage": "No loan"}), NotFoundError, "No loan"),
        (answer(429, {"message": "Too many"}, retry_after=1), TooManyLoginsError, "Too many"),
        (answer(415, {"title": "Unsupported"}), InvalidRequestError, "Unsupported"),
        (text(403, "<html>", "text/html"), InvalidRequestError, "has the status 403"),
        (answer(307), InvalidRequestError, "has the status 307"),
    ],
)
def test_a_refusal_is_final_and_tells_the_services_own_words(refusal, error, message):
    with pytest.raises(error, match=message) as raised:
        Play([refusal]).perform(step())
    assert type(raised.value) is error


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff", b"[1]", b"null", b'{"detail": [1]}'])
def test_garbage_beside_an_error_does_not_hide_the_error(body):
    garbage = Reply(400, {"content-type": "application/json"}, body)
    with pytest.raises(InvalidRequestError, match="has the status 400"):
        Play([garbage]).perform(step())


@pytest.mark.parametrize(
    "failed", [unavailable("model_not_loaded", None), answer(500, {"detail": "Prediction error"})]
)
def test_what_will_not_pass_is_not_tried_again(failed):
    with pytest.raises(UnavailableError) as raised:
        Play([failed]).perform(step(Effect.NONE))
    assert raised.value.status == failed.status


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"[" * 100_000])
def test_garbage_is_no_result_and_is_not_asked_for_again(body):
    garbage = Reply(200, {"content-type": "application/json"}, body)
    with pytest.raises(UnusableAnswerError, match="documented form") as raised:
        Play([garbage]).perform(step())
    assert raised.value.key == "key-1"
    assert len(str(raised.value)) < 1000


def test_pauses_double_and_half_of_each_is_left_to_chance():
    least, most = (Play([REFUSED] * 4, chance=chance) for chance in (0.0, 1.0))
    for play in (least, most):
        with pytest.raises(UnavailableError):
            play.perform(step())
    assert most.pauses == pytest.approx([0.05, 0.1, 0.2])
    assert least.pauses == pytest.approx([0.025, 0.05, 0.1])


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_a_service_that_asks_for_time_gets_it(chance):
    play = Play([unavailable("overloaded", 1), answer(body="done")], chance=chance)
    assert play.perform(step()) == "done"
    assert 1.0 <= play.pauses[0] <= 1.25


def test_a_service_that_asks_for_more_time_than_there_is_is_not_waited_for():
    play = Play([unavailable("too_many_states", 300)])
    with pytest.raises(UnavailableError) as raised:
        play.perform(step())
    error = raised.value
    assert (error.code, error.retry_after_s) == ("too_many_states", 300)
    assert not isinstance(error, UnknownOutcomeError)
    assert play.pauses == []


def test_a_call_ends_in_its_time_however_long_its_attempts_take():
    play = Play([LOST] * 9, Timeouts(attempt_s=3, total_s=5), Retries(attempts=9), answer_s=2.0)
    with pytest.raises(UnknownOutcomeError):
        play.perform(step())
    assert [send.timeout_s for send in play.sent] == pytest.approx([3, 2.975, 0.925], abs=0.01)
    assert all(send.connect_s <= 1 for send in play.sent)
