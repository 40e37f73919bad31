"""What a replica knows of access, kept up to date beside the requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from starlette import types as http

from deployments.access.audit import FLUSH_PERIOD_S, AuditBuffer, AuditLog
from deployments.access.claims import Claims, Scope
from deployments.access.keys import Keys
from deployments.access.revocations import Revocations
from deployments.access.tokens import Tokens
from deployments.aio import PeriodicTask
from deployments.http.errors import ForbiddenError, UnauthorizedError
from deployments.http.probes import Check
from deployments.http.request import client_address, header
from deployments.store import Store, StoreError

CLOCK_SKEW_S = 5.0  # between two nodes
SCOPES_WHILE_UNCHECKED = ("act", "read")
"""Tokens allow these while revocations cannot be read: a town without signals is more harmful."""


class AccessControl:
    """The tokens and the audit log of a replica.

    Args:
        tokens: issued and verified by the replica.
        read_keys: returns the signing keys, the same object while they are the same; it may wait
            for a disk.
        audit: buffer of the audit log.
    """

    def __init__(self, tokens: Tokens, read_keys: Callable[[], Keys], audit: AuditBuffer) -> None:
        self.tokens = tokens
        self.audit = audit
        self._read_keys = read_keys

    @classmethod
    def of_store(
        cls,
        store: Store,
        users: Mapping[str, str],
        read_keys: Callable[[], Keys],
        lifetime_s: int = 0,
    ) -> AccessControl:
        """Create the access control of the users and tokens in a store.

        Args:
            users: names and password hashes from the configuration.
            lifetime_s: of the tokens that are issued; 0 where none are.
        """
        tokens = Tokens(
            read_keys(),
            lifetime_s,
            CLOCK_SKEW_S,
            revocations=Revocations(store, users),
            unchecked=SCOPES_WHILE_UNCHECKED,
        )
        return cls(tokens, read_keys, AuditBuffer(AuditLog(store)))

    def authenticate(self, request: http.Scope, scope: Scope, place: str = "") -> Claims:
        """Return the claims of the token of a request, or note its refusal.

        Args:
            place: begins the detail of the entry.

        Raises:
            UnauthorizedError: there is no token, or it is not valid now.
            ForbiddenError: it lacks the scope.
            RefusedError: the revocations are not fresh, and the scope needs them.
        """
        authorization = header(request, b"authorization")
        try:
            return self.tokens.authenticate(authorization, scope)
        except (UnauthorizedError, ForbiddenError) as error:
            if authorization is not None:
                where = client_address(request)
                self.audit.note("token refused", error.subject, where, f"{place}{error}")
            raise

    @property
    def checks(self) -> dict[str, Check]:
        """What a replica needs to be ready, by the names in ``/readyz``."""
        return {
            "signing_key": Check(self.tokens.check, "Tokens cannot be signed and verified."),
            "revocations": Check(
                self.tokens.revocations.are_fresh, "It is not known which tokens are revoked."
            ),
        }

    async def start(self) -> list[PeriodicTask]:
        """Read the revocations, if the store serves, and return the tasks that follow them."""
        with contextlib.suppress(Exception):  # the task below logs it when it fails as well
            await self.tokens.refresh_revocations()
        return [
            PeriodicTask("The file of keys", self._follow_keys),
            PeriodicTask("The list of revocations", self.tokens.refresh_revocations),
            PeriodicTask("The audit log", self.audit.flush, FLUSH_PERIOD_S),
        ]

    async def _follow_keys(self) -> None:
        keys = await asyncio.to_thread(self._read_keys)
        if keys is not self.tokens.keys:
            self.tokens.use(keys)

    async def close(self) -> None:
        """Write what the audit log has still to get."""
        with contextlib.suppress(StoreError):
            await self.audit.flush()
