"""The keys that sign tokens, each with a name (``kid``) and the times when it signs and verifies.

The newest key signs, from its time on. Earlier keys verify until the last token that they signed
has expired, so that a rotation ends no session. A key is distributed for a while before it signs,
so that every replica has read it before it meets a token of it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import jwt

Algorithm = Literal["HS256", "RS256", "EdDSA"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
MIN_SECRET_BYTES = 32  # of an HS256 key, RFC 7518 section 3.2
MIN_RSA_BITS = 2048  # RFC 7518 section 3.3
MAX_KEYS = 32
MAX_KID = 64


class WeakSecretError(ValueError):
    """The signing key is too short to be safe."""


class InvalidKeysError(ValueError):
    """The set of keys cannot be used; the message says why, and contains no part of a key."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key for one algorithm: a token cannot choose another.

    Attributes:
        kid: its name, which is not secret.
        material: for signing: the bytes of a shared secret, or a private key.
        public: for verifying: the same bytes, or the public key.
        signs_from: seconds since the Unix epoch.
        verifies_until: likewise; infinite until another key replaces it.
    """

    kid: str
    algorithm: Algorithm
    material: Any = field(repr=False)
    public: Any = field(repr=False)
    signs_from: float = -math.inf
    verifies_until: float = math.inf

    @property
    def is_shared(self) -> bool:
        """Whether every verifier could sign as well."""
        return self.algorithm == "HS256"

    def seal(self, text: str) -> str:
        """Return a keyed hash of a text, which reveals nothing without this key."""
        secret = self.material
        if not self.is_shared:
            from cryptography.hazmat.primitives import serialization as form

            der, plain = form.Encoding.DER, form.NoEncryption()
            secret = secret.private_bytes(der, form.PrivateFormat.PKCS8, plain)
        return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()[:32]


class Keys:
    """The keys in use.

    Raises:
        InvalidKeysError: no keys, too many, or two with the same name.
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        self._by_kid: dict[str, Key] = {}
        for key in keys:
            if key.kid in self._by_kid:
                raise InvalidKeysError(f"two keys have the kid {key.kid!r}")
            self._by_kid[key.kid] = key
        if not 1 <= len(self._by_kid) <= MAX_KEYS:
            raise InvalidKeysError(f"there are {len(self._by_kid)} keys; 1 to {MAX_KEYS} may be")

    @classmethod
    def of_secret(cls, secret: bytes) -> Keys:
        """Return the keys of an installation that has only a shared secret.

        Raises:
            WeakSecretError: the secret is too short.
        """
        return cls([key_of_secret(secret)])

    def __iter__(self) -> Iterator[Key]:
        return iter(self._by_kid.values())

    def signing(self, now: float) -> Key:
        """Return the key that signs at a time.

        Raises:
            InvalidKeysError: no key signs then.
        """
        able = [key for key in self if key.signs_from <= now < key.verifies_until]
        if not able:
            raise InvalidKeysError("no key signs at present")
        return max(able, key=lambda key: key.signs_from)

    def verifying(self, kid: str | None) -> list[Key]:
        """Return the keys that may have signed a token, at any time.

        Args:
            kid: of the token; None for a token of an earlier release, or of another program that
                has the shared secret.
        """
        if kid is None:
            return [key for key in self if key.is_shared]
        key = self._by_kid.get(kid)
        return [key] if key else []


def key_of_secret(secret: bytes) -> Key:
    """Return the key of a shared secret; its name is a keyed hash.

    Raises:
        WeakSecretError: the secret is too short.
    """
    if len(secret) < MIN_SECRET_BYTES:
        raise WeakSecretError(
            f"JWT_SECRET has {len(secret)} bytes; HS256 needs at least {MIN_SECRET_BYTES}"
        )
    digest = hmac.new(secret, b"kid", hashlib.sha256).digest()[:12]
    kid = base64.urlsafe_b64encode(digest).decode()
    if kid.startswith("-"):  # an option on a command line
        kid = f"A{kid[1:]}"
    return Key(kid, "HS256", secret, secret)


def new_name() -> str:
    """Return a unique name for a key or a token."""
    return secrets.token_hex(12)


def new_key(algorithm: Algorithm, signs_from: float) -> Key:
    """Make a key."""
    kid = new_name()
    if algorithm == "HS256":
        secret = secrets.token_bytes(48)
        return Key(kid, algorithm, secret, secret, signs_from)
    from cryptography.hazmat.primitives.asymmetric import ed25519, rsa  # takes 30 ms

    private: Any
    if algorithm == "EdDSA":
        private = ed25519.Ed25519PrivateKey.generate()
    else:
        private = rsa.generate_private_key(public_exponent=65537, key_size=3072)
    return Key(kid, algorithm, private, private.public_key(), signs_from)


def write_keys(keys: Iterable[Key]) -> bytes:
    """Return a private JWK Set (RFC 7517), with the times of each key as additional members."""
    return json.dumps({"keys": [_write(key) for key in keys]}, indent=2).encode()


def read_keys(content: bytes) -> Keys:
    """Read a private JWK Set.

    Raises:
        InvalidKeysError: the content has another form, or a key is too weak.
    """
    try:
        entries = json.loads(content)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        raise InvalidKeysError("it is not a JWK Set, a JSON object with a list 'keys'")
    return Keys(_read(number, entry) for number, entry in enumerate(entries, start=1))


def public_keys(keys: Keys, now: float) -> bytes:
    """Return the JWK Set (RFC 7517) of the public keys, without shared secrets."""
    shown = [public_jwk(key) for key in keys if not key.is_shared and now < key.verifies_until]
    return json.dumps({"keys": shown}).encode()


def public_jwk(key: Key) -> dict[str, Any]:
    """Return the public JWK of a key that is not shared."""
    assert not key.is_shared
    return {
        **_encoder(key.algorithm).to_jwk(key.public, as_dict=True),
        "kid": key.kid,
        "alg": key.algorithm,
        "use": "sig",
        "key_ops": ["verify"],
    }


def _write(key: Key) -> dict[str, Any]:
    members = {"kid": key.kid, "alg": key.algorithm, "use": "sig"}
    times = {"signs_from": key.signs_from, "verifies_until": key.verifies_until}
    material = _encoder(key.algorithm).to_jwk(key.material, as_dict=True)
    return {**material, **members, **{k: v for k, v in times.items() if math.isfinite(v)}}


def _read(number: int, entry: Any) -> Key:
    def refuse(why: str) -> InvalidKeysError:
        return InvalidKeysError(f"key {number}: {why}")

    if not isinstance(entry, Mapping):
        raise refuse("it is not a JSON object")
    kid, algorithm = entry.get("kid"), entry.get("alg")
    if not isinstance(kid, str) or not 1 <= len(kid) <= MAX_KID or not kid.isprintable():
        raise refuse(f"'kid' is not 1 to {MAX_KID} printable characters")
    if algorithm not in ALGORITHMS:
        raise refuse(f"'alg' is not one of {', '.join(ALGORITHMS)}")
    since = entry.get("signs_from", -math.inf)
    until = entry.get("verifies_until", math.inf)
    if any(type(time) not in (int, float) or math.isnan(time) for time in (since, until)):
        raise refuse("'signs_from' and 'verifies_until' are seconds since the Unix epoch")
    try:
        material = _encoder(algorithm).from_jwk(dict(entry))
        public = material if algorithm == "HS256" else material.public_key()
    except Exception:  # the libraries raise errors of many types, which may quote the key
        raise refuse(f"it has no private key for {algorithm}") from None
    if algorithm == "HS256" and len(material) < MIN_SECRET_BYTES:
        raise refuse(f"it has {len(material)} bytes; HS256 needs at least {MIN_SECRET_BYTES}")
    if algorithm == "RS256" and material.key_size < MIN_RSA_BITS:
        raise refuse(f"it has {material.key_size} bits; RS256 needs at least {MIN_RSA_BITS}")
    return Key(kid, algorithm, material, public, since, until)


def _encoder(algorithm: str) -> Any:
    return jwt.get_algorithm_by_name(algorithm)
