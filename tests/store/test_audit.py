"""The audit log on every store: replicas that write at once lose nothing and keep the bound."""

import asyncio

from deployments.access.audit import AuditLog, Entry
from deployments.store import StoreUnavailable

WRITERS, BATCHES = 4, 10


async def test_entries_of_several_replicas_are_all_kept_up_to_the_bound(store):
    log = AuditLog(store, most=WRITERS * BATCHES * 2 - 5)

    async def write(writer):
        for batch in range(BATCHES):
            texts = [f"{writer}-{batch}-{number}" for number in range(2)]
            entries = [Entry("uses", 1, "login", text, "", "", 1, 1) for text in texts]
            while True:
                try:
                    await log.append("uses", entries, f"{writer}-{batch}")
                    break
                except StoreUnavailable:  # the others were faster, as often as one tries
                    continue

    await asyncio.gather(*map(write, range(WRITERS)))
    kept = [entry.who for entry in await log.entries()]
    assert len(kept) == len(set(kept)) == WRITERS * BATCHES * 2 - 5
