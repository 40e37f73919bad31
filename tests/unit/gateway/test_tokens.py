"""Which tokens are let in, and which are not."""

from __future__ import annotations

import base64
import json

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.gateway.errors import UnauthorizedError
from deployments.gateway.tokens import ISSUER, MAX_REMEMBERED, Tokens, WeakSecretError

SECRET = b"0123456789abcdef" * 4
NOW = 1_700_000_000


class Clock:
    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tokens(clock):
    return Tokens(SECRET, lifetime_s=3600, clock_skew_s=5, clock=clock)


def forge(secret: bytes = SECRET, algorithm: str = "HS256", **changes: object) -> str:
    claims = {"sub": "ann", "iss": ISSUER, "iat": NOW, "exp": NOW + 60} | changes
    present = {name: value for name, value in claims.items() if value is not ...}
    return jwt.encode(present, secret if algorithm != "none" else "", algorithm)


def test_an_issued_token_is_accepted_and_names_its_user(tokens):
    assert tokens.authenticate(f"Bearer {tokens.issue('ann')}") == "ann"


def test_an_issued_token_has_the_documented_header_and_claims(tokens):
    token = tokens.issue("ann")
    claims = jwt.decode(token, options={"verify_signature": False})
    assert jwt.get_unverified_header(token)["alg"] == "HS256"
    assert claims == {"sub": "ann", "iss": ISSUER, "iat": NOW, "exp": NOW + 3600}


def test_the_scheme_is_accepted_in_any_case(tokens):
    assert tokens.authenticate(f"bEARER  {tokens.issue('ann')} ") == "ann"


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer  ", "Basic YTpi", "token", "Bearerx"]
)
def test_what_is_no_bearer_token_is_refused(tokens, header):
    with pytest.raises(UnauthorizedError, match="A bearer token is required"):
        tokens.authenticate(header)


@pytest.mark.parametrize(
    "token",
    [
        forge(secret=b"another key of at least 32 bytes!"),
        forge(iss="somebody-else"),
        forge(algorithm="HS512"),
        forge(algorithm="none"),
        forge(iss=...),
        forge(sub=...),
        forge(iat=...),
        forge(exp=...),
        forge(sub=7),
        forge(exp="tomorrow"),
        forge(exp=True),
        forge(nbf=NOW + 10**9),
        forge(aud="another-service"),
        forge()[:-4] + "AAAA",
        "not.a.token",
        "e30.e30.e30",
        "\xff.\xff.\xff",
        base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.e30",
    ],
    ids=lambda token: token[:12],
)
def test_a_token_that_is_not_ours_is_refused(tokens, token):
    with pytest.raises(UnauthorizedError, match="The token is invalid"):
        tokens.verify(token)


def test_a_token_with_changed_claims_is_refused(tokens):
    header, _, signature = tokens.issue("ann").split(".")
    claims = {"sub": "root", "iss": ISSUER, "iat": NOW, "exp": NOW + 3600}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    with pytest.raises(UnauthorizedError, match="invalid"):
        tokens.verify(f"{header}.{payload}.{signature}")


@pytest.mark.parametrize(("after_s", "valid"), [(3599, True), (3604, True), (3605, False)])
@pytest.mark.parametrize("seen_before", [True, False])
def test_a_token_expires_after_its_lifetime_and_the_skew(
    tokens, clock, after_s, valid, seen_before
):
    token = tokens.issue("ann")
    if seen_before:
        tokens.verify(token)
    clock.now += after_s
    if valid:
        assert tokens.verify(token) == "ann"
    else:
        with pytest.raises(UnauthorizedError, match="The token has expired"):
            tokens.verify(token)


@pytest.mark.parametrize(("ahead_s", "valid"), [(5, True), (6, False)])
def test_a_token_from_the_future_is_refused_beyond_the_skew(tokens, ahead_s, valid):
    token = forge(iat=NOW + ahead_s, exp=NOW + 3600)
    if valid:
        assert tokens.verify(token) == "ann"
    else:
        with pytest.raises(UnauthorizedError, match="The token is not valid yet"):
            tokens.verify(token)


def test_after_the_clock_was_set_back_a_new_login_is_enough(tokens, clock):
    before = tokens.issue("ann")
    clock.now -= 3600
    with pytest.raises(UnauthorizedError, match="not valid yet"):
        tokens.verify(before)
    assert tokens.verify(tokens.issue("ann")) == "ann"


@pytest.mark.parametrize("secret", [b"", b"x" * 31])
def test_a_short_secret_is_refused(secret):
    with pytest.raises(WeakSecretError, match="at least 32"):
        Tokens(secret, lifetime_s=3600, clock_skew_s=5)


def test_remembered_tokens_are_bounded(tokens):
    for number in range(MAX_REMEMBERED + 10):
        tokens.verify(tokens.issue(f"user-{number}"))
    assert len(tokens._verified) == MAX_REMEMBERED


@given(st.text(max_size=200))
def test_no_text_is_taken_for_a_token(text):
    with pytest.raises(UnauthorizedError):
        Tokens(SECRET, lifetime_s=3600, clock_skew_s=5).authenticate(f"Bearer {text}")
