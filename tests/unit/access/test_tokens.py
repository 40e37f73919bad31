"""Which tokens are let in, and which are not."""

import base64

import jwt
import pytest

from deployments.access.claims import SCOPES
from deployments.access.keys import Key, Keys, WeakSecretError
from deployments.access.tokens import ISSUER, MAX_REMEMBERED, Tokens
from deployments.http.errors import UnauthorizedError
from tests.unit.access.conftest import NOW, SECRET, forge


@pytest.fixture
def tokens(clock):
    return Tokens(Keys.of_secret(SECRET), lifetime_s=3600, clock_skew_s=5, clock=clock)


def test_keys_that_sign_and_verify_pass_the_check_and_others_fail_it(tokens):
    tokens.check()
    tokens.use(Keys([Key("torn", "HS256", SECRET, SECRET[::-1])]))
    with pytest.raises(UnauthorizedError):
        tokens.check()


def test_an_issued_token_has_the_documented_header_and_claims(tokens):
    token = tokens.issue("ann")
    claims = jwt.decode(token, options={"verify_signature": False})
    assert jwt.get_unverified_header(token)["alg"] == "HS256"
    documented = {"sub": "ann", "iss": ISSUER, "iat": NOW, "exp": NOW + 3600}
    assert claims == documented | {"jti": claims["jti"], "scope": "act reset read"}
    assert tokens.verify(token).token_id != tokens.verify(tokens.issue("ann")).token_id


@pytest.mark.parametrize(
    ("claim", "allowed"),
    [
        (..., SCOPES),
        ("act  read", ("act", "read")),
        ("reset everything", ("reset",)),
        ("", ()),
        ("ACT", ()),
        (["act"], ()),
        (7, ()),
        (True, ()),
    ],
)
def test_only_a_token_from_before_there_were_scopes_allows_all(tokens, claim, allowed):
    assert tokens.verify(forge(scope=claim)).scopes == set(allowed)


def test_the_scheme_is_accepted_in_any_case(tokens):
    assert tokens.authenticate(f"bEARER  {tokens.issue('ann')} ", "act").subject == "ann"


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer  ", "Basic YTpi", "token", "Bearerx"]
)
def test_what_is_no_bearer_token_is_refused(tokens, header):
    with pytest.raises(UnauthorizedError, match="A bearer token is required"):
        tokens.authenticate(header, "act")


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
        forge(exp=float("nan")),
        forge(exp=10**300),
        forge(iat=float("nan")),
        forge(sub="\ud800"),
        forge(nbf="tomorrow"),
        forge(aud="another-service"),
        forge()[:-4] + "AAAA",
        "not.a.token",
        "\xff.\xff.\xff",
        base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.e30",
    ],
    ids=lambda token: token[:12],
)
def test_a_token_that_is_not_ours_is_refused(tokens, token):
    with pytest.raises(UnauthorizedError, match="The token is invalid"):
        tokens.verify(token)


def test_a_token_that_is_too_long_is_not_even_read(tokens, monkeypatch):
    token = forge(filling="a" * 8192)
    monkeypatch.setattr("deployments.access.tokens.jwt", None)
    with pytest.raises(UnauthorizedError, match="The token is invalid"):
        tokens.verify(token)


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
        assert tokens.verify(token).subject == "ann"
    else:
        with pytest.raises(UnauthorizedError, match="The token has expired"):
            tokens.verify(token)


@pytest.mark.parametrize("claim", ["iat", "nbf"])
@pytest.mark.parametrize(("ahead_s", "valid"), [(5, True), (6, False)])
def test_a_token_from_the_future_is_refused_beyond_the_skew(tokens, clock, claim, ahead_s, valid):
    token = forge(**{claim: NOW + ahead_s, "exp": NOW + 3600})
    if not valid:
        with pytest.raises(
            UnauthorizedError, match=f"The token is not valid yet: its {claim} is 6 s ahead"
        ):
            tokens.verify(token)
        clock.now += 1
    assert tokens.verify(token).subject == "ann"


@pytest.mark.parametrize("secret", [b"", b"x" * 31])
def test_a_short_secret_is_refused(secret):
    with pytest.raises(WeakSecretError, match="at least 32"):
        Keys.of_secret(secret)


def test_remembered_tokens_are_bounded(tokens):
    for number in range(MAX_REMEMBERED + 10):
        tokens.verify(tokens.issue(f"user-{number}"))
    assert len(tokens._verified) == MAX_REMEMBERED
