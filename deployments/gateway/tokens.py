"""Access tokens: JWTs signed with HS256 (RFC 7519), issued at login and checked at each request."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import jwt

from deployments.gateway.errors import UnauthorizedError

ALGORITHM = "HS256"
ISSUER = "traffic-api-gateway"
MIN_SECRET_BYTES = 32  # of an HS256 key, RFC 7518 section 3.2
MAX_REMEMBERED = 1024

_CLAIMS = ["sub", "iss", "iat", "exp"]


class WeakSecretError(ValueError):
    """The signing key is too short to be safe."""


class _Verified(NamedTuple):
    subject: str
    issued_at: float
    expires_at: float


class Tokens:
    """Issues and verifies tokens.

    Args:
        secret: signing key, at least 32 bytes.
        lifetime_s: from issue to expiry.
        clock_skew_s: by how much the clocks of issuer and verifier may differ.
        clock: seconds since the Unix epoch.

    Raises:
        WeakSecretError: the key is too short.
    """

    def __init__(
        self,
        secret: bytes,
        lifetime_s: int,
        clock_skew_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise WeakSecretError(
                f"JWT_SECRET has {len(secret)} bytes; HS256 needs at least {MIN_SECRET_BYTES}"
            )
        self.lifetime_s = lifetime_s
        self._secret = secret
        self._clock_skew_s = clock_skew_s
        self._clock = clock
        # Checking a signature costs as much as half of the rest of a request, and clients send the
        # same token for an hour. Times are checked anew at each request.
        self._verified: dict[str, _Verified] = {}

    def issue(self, subject: str) -> str:
        now = int(self._clock())
        claims = {"sub": subject, "iss": ISSUER, "iat": now, "exp": now + self.lifetime_s}
        return jwt.encode(claims, self._secret, ALGORITHM)

    def authenticate(self, authorization: str | None) -> str:
        """Return the subject of the token in an Authorization header.

        Raises:
            UnauthorizedError: the token is missing, is no bearer token, or is not valid now.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise UnauthorizedError("A bearer token is required")
        return self.verify(token.strip())

    def verify(self, token: str) -> str:
        """Return the subject of a token.

        Raises:
            UnauthorizedError: the token is not valid now.
        """
        verified = self._verified.get(token)
        if verified is None:
            verified = self._remember(token, self._decode(token))
        now = self._clock()
        if now >= verified.expires_at + self._clock_skew_s:
            raise UnauthorizedError("The token has expired")
        if now < verified.issued_at - self._clock_skew_s:
            raise UnauthorizedError("The token is not valid yet")
        return verified.subject

    def _decode(self, token: str) -> _Verified:
        try:
            claims = jwt.decode(
                token,
                self._secret,
                algorithms=[ALGORITHM],
                issuer=ISSUER,
                # times are checked by verify, with this object's clock
                options={"require": _CLAIMS, "verify_exp": False, "verify_iat": False},
            )
            issued_at, expires_at = claims["iat"], claims["exp"]
            if type(issued_at) not in (int, float) or type(expires_at) not in (int, float):
                raise UnauthorizedError("The token is invalid")
            return _Verified(claims["sub"], issued_at, expires_at)
        except (jwt.PyJWTError, ValueError, RecursionError):  # a nested header recurses
            raise UnauthorizedError("The token is invalid") from None

    def _remember(self, token: str, verified: _Verified) -> _Verified:
        if len(self._verified) >= MAX_REMEMBERED:
            del self._verified[next(iter(self._verified))]  # the oldest
        self._verified[token] = verified
        return verified
