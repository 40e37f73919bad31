"""One token for all calls: renewed before it expires, and when the gateway does not take it."""

import json
from typing import Any

import pytest

from greenwave.client import (
    AsyncClient,
    Client,
    InvalidInputError,
    TooManyLoginsError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
)
from greenwave.client.gateway import Run
from greenwave.client.login import Grant, Login, make_bearer
from tests.unit.greenwave.client.play import LOST, REFUSED, Play, answer, granted, step, unavailable

STEP, LOGIN = "/step", "/api/auth/login"
CALL = step(authorized=True)
TOKENS = ("token", "inference_token")
UNAUTHORIZED = answer(401, {"message": "Missing or invalid credentials"})
DONE = answer(body="done")


def logged_in(*outcomes: object, **given: object) -> Play:
    return Play(outcomes, login=Login("http://service", "ann", "secret"), **given)  # type: ignore[arg-type]


def tokens(play: Play) -> list[str | None]:
    return [send.headers.get("authorization") for send in play.sent if send.url.endswith(STEP)]


def test_the_first_call_logs_in_and_the_next_ones_use_its_token():
    play = logged_in(granted(), DONE, DONE)
    assert [play.perform(CALL), play.perform(CALL)] == ["done", "done"]
    assert play.paths == [LOGIN, STEP, STEP]
    assert json.loads(play.sent[0].body or b"") == {"username": "ann", "password": "secret"}
    assert tokens(play) == ["Bearer token-1"] * 2


@pytest.mark.parametrize(("life_s", "early_s"), [(3600, 60), (100, 10)])
def test_a_token_is_renewed_before_it_expires(life_s, early_s):
    play = logged_in(granted(expires_in=life_s), DONE, DONE, granted("token-2"), DONE)
    play.perform(CALL)
    play.now += life_s - early_s - 1
    play.perform(CALL)
    play.now += 2
    play.perform(CALL)
    assert tokens(play) == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


@pytest.mark.parametrize("trouble", [LOST, REFUSED, unavailable("overloaded"), answer(429)])
def test_a_renewal_that_fails_stops_no_call_while_the_token_is_good(trouble):
    play = logged_in(granted(), DONE, trouble, DONE, DONE, granted("token-2"), DONE)
    play.perform(CALL)
    play.now += 3550
    play.perform(CALL)
    play.perform(CALL)  # not tried again at once
    assert play.paths[2:] == [LOGIN, STEP, STEP]
    play.now += 11
    play.perform(CALL)
    assert tokens(play)[-2:] == ["Bearer token-1", "Bearer token-2"]


def test_without_a_good_token_a_login_is_tried_as_often_as_a_call():
    play = logged_in(granted(), DONE, REFUSED, LOST, granted("token-2"), DONE)
    play.perform(CALL)
    play.now += 3601
    assert play.perform(CALL) == "done"
    with pytest.raises(UnavailableError):
        logged_in(*[REFUSED] * 4).perform(CALL)


def test_a_401_in_mid_run_logs_in_anew_and_repeats_the_call_at_once():
    play = logged_in(granted(), DONE, UNAUTHORIZED, granted("token-2"), DONE)
    play.perform(CALL)
    assert play.perform(CALL) == "done"
    assert tokens(play)[1:] == ["Bearer token-1", "Bearer token-2"]
    assert play.pauses == []


@pytest.mark.parametrize("renewal", [REFUSED, LOST, answer(body={})])
def test_a_login_that_fails_after_a_lost_answer_leaves_the_outcome_unknown(renewal):
    play = logged_in(granted(), LOST, UNAUTHORIZED, *[renewal] * 4)
    with pytest.raises(UnknownOutcomeError, match="may have been done or not") as raised:
        play.perform(CALL)
    assert (raised.value.key, raised.value.call) == (CALL.key, str(CALL))


def test_a_login_that_fails_before_any_step_was_sent_leaves_nothing_open():
    with pytest.raises(UnavailableError) as raised:
        logged_in(granted(), UNAUTHORIZED, *[REFUSED] * 4).perform(CALL)
    assert not isinstance(raised.value, UnknownOutcomeError)


def test_a_401_for_a_token_that_was_replaced_meanwhile_asks_for_no_further_one():
    login = Login("http://service", "ann", "secret")
    login.keep(Grant(access_token="token-2", expires_in=3600), 0)
    login.refuse("token-1")
    assert login.fresh(0) == "token-2"
    login.refuse("token-2")
    assert login.fresh(0) is None


@pytest.mark.parametrize(
    "refusals",
    [
        [answer(401, {"message": "Invalid username or password"})],
        [granted(), UNAUTHORIZED, granted("token-2"), UNAUTHORIZED],
    ],
    ids=["a wrong password", "a second 401"],
)
def test_a_refusal_of_a_login_is_final(refusals):
    with pytest.raises(UnauthorizedError) as raised:
        logged_in(*refusals).perform(CALL)
    assert "secret" not in str(raised.value)


def test_too_many_logins_are_not_made_more():
    with pytest.raises(TooManyLoginsError) as raised:
        logged_in(answer(429, {"message": "later"}, retry_after=60)).perform(CALL)
    assert raised.value.retry_after_s == 60


@pytest.mark.parametrize(
    "grant", [{}, {"accessToken": "", "expiresIn": 1}, {"accessToken": "t", "expiresIn": 0}]
)
def test_a_grant_that_grants_nothing_is_no_token(grant):
    with pytest.raises(UnavailableError, match="documented form"):
        logged_in(answer(body=grant)).perform(CALL)


def test_a_call_that_needs_a_login_says_so():
    with pytest.raises(InvalidInputError, match="username and a password"):
        Play([]).perform(CALL)


def test_a_given_token_is_used_as_it_is_and_its_refusal_is_final():
    bearer = make_bearer("t0ken\n", "token", "a token")
    play = Play([answer(), UNAUTHORIZED])
    run: Any = Run(lambda call: call, "http://service", bearer)
    play.perform(run.reset())
    play.now += 10**9
    with pytest.raises(UnauthorizedError):
        play.perform(run.reset())
    assert [send.headers["authorization"] for send in play.sent] == ["Bearer t0ken"] * 2


@pytest.mark.parametrize(
    "given",
    [
        {"username": "ann", "password": "secret", "token": "token"},
        {"username": "ann", "token": "token"},
        {"username": "ann"},
        {"username": "", "password": "secret"},
        {"username": "ann", "password": " "},
        *({name: wrong} for name in TOKENS for wrong in ("", "two words", "a\r\nb", "ä")),
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_what_is_no_token_or_more_than_one_login_is_refused(kind, given):
    named = "token, or a username|blank" if "username" in given else f"^{next(iter(given))} must"
    with pytest.raises(InvalidInputError, match=named):
        kind("http://service", **given)
