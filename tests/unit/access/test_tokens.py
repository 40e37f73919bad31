"""Which tokens are let in, and which are not."""

import base64
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from deployments.access.claims import SCOPES
from deployments.access.keys import Key, Keys, WeakSecretError, key_of_secret
from deployments.access.tokens import ISSUER, MAX_REMEMBERED, Tokens
from deployments.http.errors import UnauthorizedError
from tests.unit.access.conftest import NOW, SECRET, forge

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ED = ed25519.Ed25519PrivateKey.generate()
KEYS = [
    key_of_secret(SECRET),
    Key("rsa", "RS256", RSA, RSA.public_key()),
    Key("ed", "EdDSA", ED, ED.public_key()),
]
_SPKI = form.PublicFormat.SubjectPublicKeyInfo
PEM = RSA.public_key().public_bytes(form.Encoding.PEM, _SPKI)
DER = RSA.public_key().public_bytes(form.Encoding.DER, _SPKI)
RAW = ED.public_key().public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)
STRANGER = b"a secret of a stranger, 32 bytes"
CLAIMS = {"sub": "ann", "iss": ISSUER, "iat": NOW, "exp": NOW + 60}


def part(content: object) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(
    claims: object = CLAIMS, secret: bytes = SECRET, digest: str = "sha256", **head: object
) -> str:
    """Sign by hand what no library would."""
    message = f"{part({'alg': 'HS256', **head})}.{part(claims)}"
    return f"{message}.{part(hmac.digest(secret, message.encode(), digest))}"


def with_number(name: str, number: str) -> str:
    """Sign claims in which one is a number that Python would not write."""
    return signed(json.dumps(CLAIMS | {name: "number"}).replace('"number"', number).encode())


@pytest.fixture
def tokens(clock):
    return Tokens(Keys(KEYS), lifetime_s=3600, clock_skew_s=5, clock=clock)


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
        signed(CLAIMS | {"iss": [ISSUER]}),
        forge(sub=["ann"]),
        forge(gen=[0]),
        forge(jti=[]),
        forge(exp=None),
        with_number("exp", "1e999"),
        with_number("exp", "9" * 5000),
        with_number("iat", "-1e999"),
        with_number("nbf", "1e999"),
        signed(b"[]"),
        signed(b"\xff"),
        f"{part({'alg': 'NONE'})}.{part(CLAIMS)}.",
        signed(alg="nOnE"),
        signed().rpartition(".")[0] + ".",
        f"{part({'alg': 'HS256'})}.{part(CLAIMS | {'sub': 'root'})}.{signed().rpartition('.')[2]}",
        *(signed(secret=public, kid="rsa") for public in (PEM, DER)),
        signed(secret=PEM, alg="RS256", kid="rsa"),
        signed(secret=RAW, kid="ed"),
        signed(alg="RS256"),
        signed(alg="HS384", digest="sha384"),
        jwt.encode(CLAIMS, RSA, "PS256", {"kid": "rsa"}),
        signed(secret=STRANGER, jwk={"kty": "oct", "k": part(STRANGER)}),
        signed(secret=STRANGER, jku="http://127.0.0.1:1/jwks.json"),
        signed(secret=STRANGER, x5u="http://127.0.0.1:1/x"),
        signed(crit=["exp"]),
        signed(crit=["b64"], b64=False),
        signed(kid="other"),
        signed(secret=b"", kid="../../../../dev/null"),
        signed(secret=b"a", kid="' UNION SELECT 'a' --"),
        signed(kid=7),
        f"{part(b'[]')}.{part(CLAIMS)}.e30",
        part(b'{"alg":%b}' % (b"9" * 5000)) + ".e30.e30",
        "not.a.token",
        "\xff.\xff.\xff",
        base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.e30",
    ],
    ids=lambda token: token[:12],
)
def test_a_token_that_is_not_ours_is_refused(tokens, token):
    """Refuse also what is signed with the secret, by a broken issuer or another one that has it."""
    with pytest.raises(UnauthorizedError, match="The token is invalid"):
        tokens.verify(token)


def test_of_a_claim_that_is_given_twice_the_last_counts(tokens):
    with pytest.raises(UnauthorizedError, match="The token has expired"):
        tokens.verify(signed(json.dumps(CLAIMS)[:-1].encode() + b',"exp":1}'))


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
