"""Access tokens: JWTs (RFC 7519), issued at login and verified at each request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import jwt

from deployments.access.claims import ALL, SCOPES, Claims, Generation, Scope, in_order
from deployments.access.keys import InvalidKeysError, Key, Keys, new_name
from deployments.access.revocations import Revocations
from deployments.http.errors import ForbiddenError, RefusedError, UnauthorizedError

ISSUER = "traffic-api-gateway"
MAX_REMEMBERED = 4096  # more than the tokens of all service accounts and active users

_LONGEST = 8192  # characters of a token; ours have some 300
_LATEST_S = 10**12  # from the Unix epoch, in both directions

# times are checked by verify
_OPTIONS: Any = {
    "require": ["sub", "iss", "iat", "exp"],
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
}


class Tokens:
    """Issues and verifies tokens.

    Args:
        keys: in use; :meth:`use` replaces them.
        lifetime_s: from issue to expiry.
        clock_skew_s: between the clocks of issuer and verifier.
        clock: seconds since the Unix epoch.
        revocations: of tokens; by default, none.
        unchecked: scopes that are granted while the revocations are not fresh.
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
        self.revocations = revocations or Revocations()
        self._unchecked = frozenset(unchecked)
        # A signature takes half as long as the rest of a request, and clients send the same token
        # for an hour. Times are checked at each request.
        self._verified: dict[str, Claims] = {}

    def use(self, keys: Keys) -> None:
        """Sign and verify with these keys from now on."""
        self.keys = keys
        self._verified.clear()

    async def refresh_revocations(self) -> None:
        """Read the revocations, and forget revoked tokens.

        Raises:
            StoreUnavailable: they stay as they are.
        """
        if await self.revocations.refresh():
            for token, verified in list(self._verified.items()):
                if self.revocations.revoke(verified):
                    del self._verified[token]

    def issue(
        self, subject: str, scopes: Iterable[str] = SCOPES, generation: Generation | None = None
    ) -> str:
        """Return a token that is valid from now on.

        Args:
            generation: of its user; text is sealed.

        Raises:
            InvalidKeysError: no key signs at present.
        """
        now = int(self._clock())
        key = self.keys.signing(self._clock())
        claims: dict[str, Any] = {
            "sub": subject,
            "iss": ISSUER,
            "iat": now,
            "exp": now + self.lifetime_s,
            "jti": new_name(),
            "scope": " ".join(in_order(scopes)),
        }
        if generation is not None:
            sealed = key.seal(generation) if isinstance(generation, str) else generation
            claims["gen"] = sealed
        return jwt.encode(claims, key.material, key.algorithm, {"kid": key.kid})

    def check(self) -> None:
        """Issue a token and verify it.

        Raises:
            InvalidKeysError: no key signs at present.
            UnauthorizedError: the token is not valid.
        """
        self._decode(self.issue("readiness"))

    def authenticate(self, authorization: str | None, scope: Scope) -> Claims:
        """Return the claims of the token in an Authorization header.

        Raises:
            UnauthorizedError: there is no bearer token, or it is not valid now.
            ForbiddenError: it lacks the scope.
            RefusedError: the revocations are not fresh, and the scope needs them.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise UnauthorizedError("A bearer token is required")
        verified = self.verify(token.strip())
        if scope not in verified.scopes:
            raise _of(verified, ForbiddenError(scope))
        if scope not in self._unchecked and not self.revocations.are_fresh():
            why = "Whether the token was revoked cannot be checked at the moment"
            raise RefusedError(why, 503, retry_after_s=1)
        return verified

    def verify(self, token: str) -> Claims:
        """Return the claims of a token.

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
        if (ahead_s := verified.not_before - now) > self._clock_skew_s:
            name = "nbf" if verified.not_before > verified.issued_at else "iat"
            why = f"The token is not valid yet: its {name} is {ahead_s:.0f} s ahead"
            raise _of(verified, UnauthorizedError(why))
        return verified

    def _decode(self, token: str) -> Claims:
        try:
            key, claims = self._decode_with_its_key(token)
            return _read(key, claims)
        except (jwt.PyJWTError, ValueError, RecursionError):  # of a nested header
            raise UnauthorizedError("The token is invalid") from None

    def _decode_with_its_key(self, token: str) -> tuple[Key, dict[str, Any]]:
        keys = self.keys.verifying(jwt.get_unverified_header(token).get("kid"))
        for key in keys:
            try:
                claims = jwt.decode(
                    token, key.public, algorithms=[key.algorithm], issuer=ISSUER, options=_OPTIONS
                )
            except jwt.InvalidSignatureError:
                continue
            return key, claims
        raise InvalidKeysError("no known key has signed it")

    def _remember(self, token: str, verified: Claims) -> None:
        if len(self._verified) >= MAX_REMEMBERED:
            del self._verified[next(iter(self._verified))]  # the oldest
        self._verified[token] = verified


def _of(verified: Claims, error: RefusedError) -> RefusedError:
    """Add the subject of a token with a valid signature to its refusal."""
    error.subject = verified.subject
    return error


def _read(key: Key, claims: dict[str, Any]) -> Claims:
    times = claims["iat"], claims["exp"], claims.get("nbf", claims["iat"])
    for time_s in times:  # the comparison also refuses NaN
        if type(time_s) not in (int, float) or not -_LATEST_S <= time_s <= _LATEST_S:
            raise ValueError("a time is not a number of seconds")
    claims["sub"].encode()  # a lone surrogate fails
    generation = claims.get("gen")
    if generation is not None and type(generation) not in (int, str):
        raise ValueError("a generation is neither a number nor text")
    scopes, words = ALL, claims.get("scope")
    if words is not None:  # tokens of earlier releases have none
        scopes = ALL.intersection(str(words).split()) if isinstance(words, str) else frozenset()
    issued_at, expires_at, not_before = times
    named = claims["sub"], scopes, claims.get("jti"), generation
    ends_at = min(expires_at, key.verifies_until)
    return Claims(*named, issued_at, max(issued_at, not_before), ends_at, key)
