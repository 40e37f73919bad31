"""Defects that no generic operator expresses."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, drop, put, swap

AUTHORITY = "deployments.stateful.authority"
REPLICA = "deployments.stateful.replica"
INFERENCE = "deployments.inference"

WRITTEN = [
    # Leases count from the sending of a call (invariant 4)
    Mutant(
        "the leader lease counts from the response",
        f"{AUTHORITY}.leadership:LeaderLease.renew",
        swap("asked_at + self._duration_s", "self._clock() + self._duration_s"),
    ),
    Mutant(
        "a commit renews the lease from its response",
        f"{REPLICA}.commits:Commits.send",
        put(
            "self._session.renew(number, sent_at)",
            "self._session.renew(number, self._session.clock())",
        ),
    ),
    Mutant(
        "a poll renews the lease from its response",
        f"{REPLICA}.leases:StateLeases._listen",
        put("self._session.renew(session, sent_at)", "self._session.renew(session, self._clock())"),
    ),
    Mutant(
        "a lease counts from the response to the claim",
        f"{REPLICA}.session:Session._open",
        swap("sent_at + opened.lease_s", "self.clock() + opened.lease_s"),
    ),
    Mutant(
        "leases end by a clock that stops in a suspend",
        "deployments.stateful.protocol:lease_clock",
        swap("time.CLOCK_BOOTTIME", "time.CLOCK_MONOTONIC"),
    ),
    Mutant(
        "the age of steps does not include time asleep",
        f"{REPLICA}.commits:Commits.overdue",
        swap("self._session.clock()", "self._loop.time()"),
    ),
    Mutant(
        "steps are noted by a clock that stops in a suspend",
        f"{REPLICA}.commits:Commits.schedule",
        swap("self._session.clock()", "self._loop.time()"),
    ),
    # Terms
    Mutant(
        "the cluster is not queried while the store is unavailable",
        f"{AUTHORITY}.leadership:LeaderLease.renew",
        put("mine = await self._cluster.is_current()", "return"),
    ),
    Mutant(
        "members are not waited for while it is unknown which term is current",
        f"{AUTHORITY}.recovery:Recovery._stop_waiting_unless_superseded",
        put("return", "current = True"),
    ),
    Mutant(
        "a layout does not name the partitions before it",
        "deployments.stateful.layout:agree_on_layout",
        swap("tuple(remaining)", "()"),
    ),
    Mutant(
        "snapshots that are not restored are erased after the term has begun to act",
        f"{AUTHORITY}.leadership:Leadership.load",
        put("erased.append(snapshot_row(key))", "snapshots.put(key, None)"),
    ),
    Mutant(
        "a claim is sent only once",
        f"{REPLICA}.session:Session._send",
        swap("range(ATTEMPTS_PER_LEASE)", "range(1)"),
    ),
    # A store that was rolled back
    Mutant(
        "a confirmation of the term does not look at the number of writes",
        f"{AUTHORITY}.fenced_writer:FencedWriter.is_mine",
        swap("await self._is_rolled_back(stored, known)", "False"),
    ),
    Mutant(
        "a term counts its own writes among those of the terms before",
        f"{AUTHORITY}.fenced_writer:FencedWriter.acquire",
        put("self.inherited = before.writes", "self.inherited = before.writes + 1"),
    ),
    Mutant(
        "a term begins although the store was found rolled back",
        f"{AUTHORITY}.leadership:Leadership.acquire",
        drop("await refuse_rolled_back(self.writer.store, self.writer.table)"),
    ),
    Mutant(
        "a copy that was given back is claimed after its run has expired",
        f"{REPLICA}.claims:RecentlyReleased.__init__",
        swap("min(KEEP_RELEASED_S, ttl_s)", "KEEP_RELEASED_S"),
    ),
    Mutant(
        "a claim to expired states brings back a run whose reset was forgotten",
        f"{AUTHORITY}.recovery:Recovery._is_newer",
        swap("expired and (record is None or record.version == NEVER)", "False"),
    ),
    Mutant(
        "a claim to expired states is ignored, although a snapshot of them is restored",
        f"{AUTHORITY}.recovery:Recovery._is_newer",
        swap("expired and (record is None or record.version == NEVER)", "expired"),
    ),
    # Resets
    Mutant(
        "a reset is confirmed before the store has it",
        f"{AUTHORITY}.eviction:Eviction.reset",
        put("await self._resets.write(run, epoch, keys)", "self._resets.note(run, epoch)"),
    ),
    Mutant(
        "a reset has the epoch of the latest grant",
        f"{AUTHORITY}.eviction:Eviction.reset",
        swap("self._table.next_epoch()", "self._table.last_epoch"),
    ),
    Mutant(
        "a reset is left unfinished when its caller is cancelled",
        f"{AUTHORITY}.eviction:Eviction.reset",
        put("await asyncio.shield(clearing)", "await clearing"),
    ),
    Mutant(
        "a snapshot from before a reset stays noted",
        f"{AUTHORITY}.eviction:Resets.write",
        drop("self._snapshots.forget(key)"),
    ),
    Mutant(
        "a reset erases snapshots and is not written itself",
        f"{AUTHORITY}.eviction:Resets.write",
        swap("{self._prefix + run: packed}", "{}"),
    ),
    Mutant(
        "a reset keeps the receipts",
        f"{AUTHORITY}.table:StateTable.clear",
        put(
            "record.version, record.state, record.receipts = Version(epoch, 0), None, ()",
            "record.version, record.state = Version(epoch, 0), None",
        ),
    ),
    Mutant(
        "a reset that was not confirmed counts as refused",
        f"{REPLICA}.leases:StateLeases._call",
        swap("OutcomeUnknownError", "StaleSessionError"),
    ),
    # Reading and writing runs
    Mutant(
        "a write leaves a state to the replica that owns it by then",
        f"{AUTHORITY}.eviction:Eviction.reset",
        swap("not (states and self._not_taken(self._table.of_run(run), evictor))", "True"),
    ),
    Mutant(
        "a written state has the epoch of the latest grant",
        f"{AUTHORITY}.table:StateTable.begin",
        swap("self.next_epoch()", "self.last_epoch"),
    ),
    Mutant(
        "a write is confirmed before the store has its states",
        f"{AUTHORITY}.authority:StateAuthority.write",
        drop("await self._snapshots.flush()"),
    ),
    Mutant(
        "a read does not wait for the store",
        f"{AUTHORITY}.authority:StateAuthority.read",
        drop("await self._wait_for_store(list(states))"),
    ),
    # Receipts
    Mutant(
        "the authority keeps all receipts",
        f"{AUTHORITY}.table:StateTable.commit",
        swap("(record.receipts + new)[-MAX_RECEIPTS:]", "record.receipts + new"),
    ),
    Mutant(
        "receipts do not move with the state",
        f"{REPLICA}.held_state:HeldState.grant",
        swap("ReceiptCache.of(grant.receipts)", "ReceiptCache()"),
    ),
    Mutant(
        "a claim leaves the receipts out",
        f"{REPLICA}.held_state:HeldState.copy",
        swap("self.receipts.all()", "()"),
    ),
    Mutant(
        "a commit leaves the receipts out",
        f"{REPLICA}.held_states:commit_of",
        swap("state.receipts.since(step)", "()"),
    ),
    # Policies
    Mutant(
        "a refused canary ends the present one",
        f"{INFERENCE}.policies:Policies._load_canary",
        swap("self.canary", "None"),
    ),
    Mutant(
        "a refused policy ends the canary",
        f"{INFERENCE}.policies:Policies.reconfigure",
        put("self.primary.slot.problem = primary.slot.problem", "self.canary = None"),
    ),
]
