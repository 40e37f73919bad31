"""Access tokens: JWTs (RFC 7519), issued at login and checked at each request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import jwt

from deployments.access.claims import ALL, SCOPES, Generation, Scope, Verified, write_scopes
from deployments.access.keys import InvalidKeysError, Key, Keys, new_name
from deployments.access.revocations import Revocations
from deployments.http.errors import (
    ForbiddenError,
    RefusedError,
    UnauthorizedError,
    UncheckedError,
)

ISSUER = "traffic-api-gateway"
MAX_REMEMBERED = 4096  # more than there are service accounts' tokens and people at work

_LONGEST = 8192  # characters of a token; ours have some 300, and reading a long one costs
_LATEST_S = 10**12  # since the Unix epoch, and as long before it: what is beyond is no time

_CLAIMS = ["sub", "iss", "iat", "exp"]


class Tokens:
    """Issues and verifies tokens.

    Args:
        keys: that sign and verify; :meth:`use` replaces them.
        lifetime_s: from issue to expiry.
        clock_skew_s: by how much the clocks of issuer and verifier may differ.
        clock: seconds since the Unix epoch.
        revocations: which of them count no more; by default, none is ever revoked.
        unchecked: scopes that are granted while that is not known.

    Attributes:
        keys: in use.
        revocations: which tokens are revoked.
    """

    def __init__(
        self,
        keys: Keys,
        lifetime_s: int,
        clock_skew_s: float,
        clock: Callable[[], float] = time.time,
        revocations: Revocations | None = None,
        unchecked: Iterable[str] = SCOPES,
    ) -> None:
        self.lifetime_s = lifetime_s
        self.keys = keys
        self._clock_skew_s = clock_skew_s
        self._clock = clock
        self.revocations = revocations or Revocations([])
        self._unchecked = frozenset(unchecked)
        # Checking a signature costs as much as half of the rest of a request, and clients send the
        # same token for an hour. Times are checked anew at each request.
        self._verified: dict[str, Verified] = {}

    def use(self, keys: Keys) -> None:
        """Sign and verify with these keys from now on."""
        self.keys = keys
        self._verified.clear()

    async def refresh_revocations(self) -> None:
        """Read what was revoked meanwhile, and forget the tokens that are.

        Raises:
            StoreUnavailable: it cannot be read; what was known still counts.
        """
        if await self.revocations.refresh():
            for token, verified in list(self._verified.items()):
                if self.revocations.revoke(verified):
                    del self._verified[token]

    def issue(
        self, subject: str, scopes: Iterable[str] = SCOPES, generation: Generation | None = None
    ) -> str:
        """Return a token that begins now.

        Args:
            generation: of its user's password; text is put under a seal.

        Raises:
            InvalidKeysError: no key may sign at present.
        """
        now = int(self._clock())
        key = self.keys.signing(self._clock())
        claims: dict[str, Any] = {
            "sub": subject,
            "iss": ISSUER,
            "iat": now,
            "exp": now + self.lifetime_s,
            "jti": new_name(),
            "scope": write_scopes(scopes),
        }
        if generation is not None:
            sealed = key.seal(generation) if isinstance(generation, str) else generation
            claims["gen"] = sealed
        return jwt.encode(claims, key.material, key.algorithm, {"kid": key.kid})

    def check(self) -> None:
        """Issue a token and read it again.

        Raises:
            InvalidKeysError: no key may sign at present.
            UnauthorizedError: it would not be let in.
        """
        self._decode(self.issue("readiness"))

    def authenticate(self, authorization: str | None, scope: Scope) -> Verified:
        """Return what the token in an Authorization header says.

        Raises:
            UnauthorizedError: the token is missing, is no bearer token, or is not valid now.
            ForbiddenError: it does not have the scope.
            UncheckedError: whether it was revoked is not known at present, and matters here.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise UnauthorizedError("A bearer token is required")
        verified = self.verify(token.strip())
        if scope not in verified.scopes:
            raise _of(verified, ForbiddenError(scope))
        if scope not in self._unchecked and not self.revocations.are_fresh():
            raise UncheckedError
        return verified

    def verify(self, token: str) -> Verified:
        """Return what a token says.

        Raises:
            UnauthorizedError: the token is not valid now.
        """
        verified = self._verified.get(token)
        if verified is None:
            if len(token) > _LONGEST:
                raise UnauthorizedError("The token is invalid")
            verified = self._decode(token)
            if self.revocations.revoke(verified):
                raise _of(verified, UnauthorizedError("The token has been revoked"))
            self._remember(token, verified)
        now = self._clock()
        if now >= verified.expires_at + self._clock_skew_s:
            raise _of(verified, UnauthorizedError("The token has expired"))
        if now < verified.issued_at - self._clock_skew_s:
            raise _of(verified, UnauthorizedError("The token is not valid yet"))
        return verified

    def _decode(self, token: str) -> Verified:
        try:
            key, claims = self._decode_with_its_key(token)
            return _read(key, claims)
        except (jwt.PyJWTError, ValueError, RecursionError):  # a nested header recurses
            raise UnauthorizedError("The token is invalid") from None

    def _decode_with_its_key(self, token: str) -> tuple[Key, dict[str, Any]]:
        keys = self.keys.verifying(jwt.get_unverified_header(token).get("kid"))
        for key in keys:
            try:
                claims = jwt.decode(
                    token,
                    key.public,
                    algorithms=[key.algorithm],
                    issuer=ISSUER,
                    # times are checked by verify, with this object's clock
                    options={"require": _CLAIMS, "verify_exp": False, "verify_iat": False},
                )
            except jwt.InvalidSignatureError:
                continue
            return key, claims
        raise InvalidKeysError("no key of ours has signed it")

    def _remember(self, token: str, verified: Verified) -> None:
        if len(self._verified) >= MAX_REMEMBERED:
            del self._verified[next(iter(self._verified))]  # the oldest
        self._verified[token] = verified


def _of(verified: Verified, error: RefusedError) -> RefusedError:
    """Say whose token is refused; its signature is ours."""
    error.subject = verified.subject
    return error


def _read(key: Key, claims: dict[str, Any]) -> Verified:
    issued_at, expires_at = claims["iat"], claims["exp"]
    for time_s in (issued_at, expires_at):  # NaN is within no bounds
        if type(time_s) not in (int, float) or not -_LATEST_S <= time_s <= _LATEST_S:
            raise ValueError("a time is no number of seconds")
    claims["sub"].encode()  # a lone surrogate fails
    generation = claims.get("gen")
    if generation is not None and type(generation) not in (int, str):
        raise ValueError("a generation is neither number nor text")
    scopes, words = ALL, claims.get("scope")
    if words is not None:  # without: a token from before there were scopes
        scopes = ALL.intersection(str(words).split()) if isinstance(words, str) else frozenset()
    expires_at = min(expires_at, key.verifies_until)
    named = claims["sub"], scopes, claims.get("jti"), generation
    return Verified(*named, issued_at, expires_at, key)
