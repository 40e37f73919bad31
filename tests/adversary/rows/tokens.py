"""Tokens that the gateway must refuse.

All are for a decision. Some are signed with the secret itself: another party that has it, or a
broken issuer, must not get further than the form of a token allows.
"""

import base64
import hmac
import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from deployments.access.keys import Key
from deployments.access.tokens import ISSUER
from tests.adversary.attack import NO_HTTP, TOKEN, Attack
from tests.adversary.wire import DECISION, RUN, request
from tests.unit.gateway.conftest import SECRET

REVOKED = "revoked-by-an-operator"  # its jti
NOW = int(time.time())
USER = "ann"
STRANGER = b"a secret of a stranger, 32 bytes"

_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_ED = ed25519.Ed25519PrivateKey.generate()
OTHER_KEYS = [
    Key("rsa", "RS256", _RSA, _RSA.public_key()),
    Key("ed", "EdDSA", _ED, _ED.public_key()),
]
_SPKI = form.PublicFormat.SubjectPublicKeyInfo
_PEM = _RSA.public_key().public_bytes(form.Encoding.PEM, _SPKI)
_DER = _RSA.public_key().public_bytes(form.Encoding.DER, _SPKI)
_RAW = _ED.public_key().public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)


def part(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(
    head: dict[str, Any], claims: Any, secret: bytes = SECRET, digest: str = "sha256"
) -> str:
    """Sign by hand what no library would."""
    message = f"{part({'alg': 'HS256', **head})}.{part(claims)}"
    return f"{message}.{part(hmac.digest(secret, message.encode(), digest))}"


def claims(**changes: Any) -> dict[str, Any]:
    usual = {"sub": USER, "iss": ISSUER, "iat": NOW, "exp": NOW + 3600}
    return {name: value for name, value in (usual | changes).items() if value is not ...}


def literal(name: str, number: str) -> bytes:
    """Return claims in which one is a number that Python would not write."""
    return json.dumps(claims(**{name: "number"})).replace('"number"', number).encode()


def unsigned(algorithm: str) -> str:
    return f"{part({'alg': algorithm})}.{part(claims())}."


FORGED = {
    "no JWT": "not.a.token",
    "alg NONE": unsigned("NONE"),
    "alg nOnE, with a signature": signed({"alg": "nOnE"}, claims()),
    "no signature": signed({}, claims()).rpartition(".")[0] + ".",
    "changed claims": f"{part({'alg': 'HS256'})}.{part(claims(sub='root'))}."
    + signed({}, claims()).rpartition(".")[2],
    "RSA key as secret, PEM": signed({"kid": "rsa"}, claims(), _PEM),
    "RSA key as secret, DER": signed({"kid": "rsa"}, claims(), _DER),
    "RS256 over an HMAC": signed({"alg": "RS256", "kid": "rsa"}, claims(), _PEM),
    "Ed25519 key as secret": signed({"kid": "ed"}, claims(), _RAW),
    "secret with alg RS256": signed({"alg": "RS256"}, claims()),
    "HS384": signed({"alg": "HS384"}, claims(), digest="sha384"),
    "PS256 of the RSA key": jwt.encode(claims(), _RSA, "PS256", {"kid": "rsa"}),
    "own key in jwk": signed({"jwk": {"kty": "oct", "k": part(STRANGER)}}, claims(), STRANGER),
    "own key at jku": signed({"jku": "http://127.0.0.1:1/jwks.json"}, claims(), STRANGER),
    "own key at x5u": signed({"x5u": "http://127.0.0.1:1/x"}, claims(), STRANGER),
    "crit": signed({"crit": ["exp"]}, claims()),
    "crit b64": signed({"crit": ["b64"], "b64": False}, claims()),
    "kid unknown": signed({"kid": "other"}, claims()),
    "kid a path": signed({"kid": "../../../../dev/null"}, claims(), b""),
    "kid SQL": signed({"kid": "' UNION SELECT 'a' --"}, claims(), b"a"),
    "kid a number": signed({"kid": 7}, claims()),
    "kid of 8 KB": signed({"kid": "a" * 8192}, claims()),
    "header no object": f"{part(b'[]')}.{part(claims())}.e30",
    "header with 5000 digits": part(b'{"alg":%b}' % (b"9" * 5000)) + ".e30.e30",
}
UNTIMELY = {
    "exp twice": signed({}, json.dumps(claims())[:-1].encode() + b',"exp":1}'),
    "issued tomorrow": signed({}, claims(iat=NOW + 86400, exp=NOW + 90000)),
    "exp null": signed({}, claims(exp=None)),
    "exp 1e999": signed({}, literal("exp", "1e999")),
    "exp of 5000 digits": signed({}, literal("exp", "9" * 5000)),
    "iat -1e999": signed({}, literal("iat", "-1e999")),
    "nbf 1e999": signed({}, literal("nbf", "1e999")),
}
OF_NO_USER = {
    "issuer a list": signed({}, claims(iss=[ISSUER])),
    "sub a list": signed({}, claims(sub=[USER])),
    "another password": signed({}, claims(gen="0" * 32)),
    "generation a list": signed({}, claims(gen=[0])),
    "jti a list": signed({}, claims(jti=[])),
    "claims no object": signed({}, b"[]"),
    "claims not UTF-8": signed({}, b"\xff"),
    "of 12 KB": signed({}, claims(filling="a" * 9000)),
    "revoked": signed({}, claims(jti=REVOKED)),
}


def asking(name: str, *headers: bytes, answers: tuple[int | str, ...] = (401,)) -> Attack:
    sent = request(
        "POST",
        "/api/traffic/action",
        b"Connection: close",
        b"X-Simulation-Run: " + RUN,
        *headers,
        body=DECISION,
    )
    return Attack(f"token: {name}", (sent,), answers, port="gateway", form="message")


def bearing(name: str, token: str) -> Attack:
    return asking(name, b"Authorization: Bearer " + token.encode())


VALID = b"Authorization: Bearer " + TOKEN
ATTACKS = (
    asking("none"),
    asking("only the scheme", b"Authorization: Bearer"),
    asking("without scheme", b"Authorization: " + TOKEN),
    asking("after another scheme", b"Authorization: Basic Bearer " + TOKEN),
    asking("in the query alone", b"X-Access-Token: " + TOKEN),
    asking("two headers", VALID, b"Authorization: Bearer not.a.token"),
    asking("two headers, the valid one last", b"Authorization: Basic YTph", VALID),
    asking("two in one header", VALID + b", Bearer " + TOKEN),
    asking("with a space in it", b"Authorization: Bearer " + TOKEN[:9] + b" " + TOKEN[9:]),
    asking("of 1 MB", b"Authorization: Bearer " + b"a" * (1 << 20), answers=(NO_HTTP,)),
    *(bearing(*each) for each in {**FORGED, **UNTIMELY, **OF_NO_USER}.items()),
)
