"""What keeps a replica's knowledge of access up to date."""

import asyncio

from deployments.access.audit import AuditBuffer, AuditLog
from deployments.access.control import AccessControl
from deployments.access.keys import Keys, key_of_secret, new_key
from deployments.access.tokens import Tokens
from tests.support.virtual_time import virtual_time
from tests.unit.access.conftest import SECRET
from tests.unit.access.memory_store import MemoryStore


@virtual_time
async def test_tokens_follow_the_keys():
    old = Keys.of_secret(SECRET)
    tokens = Tokens(old, 60, 5)
    read = [old]
    audit = AuditBuffer(AuditLog(MemoryStore().as_store()))
    await AccessControl(tokens, lambda: read[0], audit).start()
    token = tokens.issue("ann")
    read[0] = Keys([key_of_secret(SECRET), new_key("HS256", 0)])
    while tokens.keys is old:
        await asyncio.sleep(0.1)
    assert tokens.verify(token).subject == "ann"


async def test_what_is_noted_is_kept_when_a_replica_stops():
    keys, log = Keys.of_secret(SECRET), AuditLog(MemoryStore().as_store())
    access = AccessControl(Tokens(keys, 60, 5), lambda: keys, AuditBuffer(log))
    access.audit.note("login", "ann", "203.0.113.9")
    await access.close()
    assert [entry.event for entry in await log.entries()] == ["login"]
