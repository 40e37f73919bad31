"""Defects of the authority."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LEDGER = "stateful/authority/fenced_writer.py"
TENURE = "stateful/authority/leader_lease.py"
SUCCESSION = "stateful/authority/takeover.py"
OFFICE = "stateful/authority/leadership.py"
RECOVERY = "stateful/authority/recovery.py"
RESETS = "stateful/authority/resets.py"
FORGETTING = "stateful/authority/eviction.py"
TABLE = "stateful/authority/table.py"
OWNERSHIP = "stateful/authority/ownership.py"
AUTHORITY = "stateful/authority/authority.py"
SESSIONS = "stateful/authority/sessions.py"
COPIES = "stateful/authority/write_behind.py"
ROWS = "stateful/authority/rows.py"
CALLS = "stateful/authority/calls.py"
LAYOUT = "stateful/layout.py"

MUTANTS = [
    Mutant(
        "a write in doubt is not settled before the next",
        LEDGER,
        "        await self._settle_doubt()\n        self._in_doubt = True\n",
        "        self._in_doubt = True\n",
    ),
    Mutant(
        "a succeeded life does not notice that its write was refused",
        LEDGER,
        "        if not await self._change(puts, deletes, self._stored):\n"
        "            raise SupersededError\n",
        "        await self._change(puts, deletes, self._stored)\n",
    ),
    Mutant(
        "a new life has the incarnation of the one before",
        LEDGER,
        "LeadershipRecord(before.incarnation + 1, 0,",
        "LeadershipRecord(before.incarnation, 0,",
    ),
    Mutant(
        "a new life forgets the members",
        LEDGER,
        "members = before.members if before.session == session else ()",
        "members = ()",
    ),
    Mutant(
        "members of an earlier start of the cluster are waited for",
        LEDGER,
        "members = before.members if before.session == session else ()",
        "members = before.members",
    ),
    Mutant(
        "a doubt is settled without a change of the row",
        LEDGER,
        "attempt=found.attempt + 1",
        "attempt=found.attempt",
    ),
    Mutant(
        "another life's row counts as one's own when a doubt is settled",
        LEDGER,
        "            if not self._is_own(found):\n                raise SupersededError\n",
        "",
    ),
    Mutant(
        "the leader_lease counts from the answer",
        TENURE,
        "        self._until = asked_at + self.leader_lease_s\n",
        "        self._until = self._clock() + self.leader_lease_s\n",
    ),
    Mutant(
        "another's partition does not end the leader_lease",
        TENURE,
        "        if not mine:\n            raise SupersededError\n",
        "",
    ),
    Mutant(
        "the cluster is not asked while the store is out of reach",
        TENURE,
        "                mine = await self._cluster.is_current()\n",
        "                return\n",
    ),
    Mutant(
        "the predecessor's leader_lease is not waited for",
        SUCCESSION,
        "    while clock() < until and not await cluster.has_ended(before.process):\n",
        "    while False:\n",
    ),
    Mutant(
        "a predecessor known to have ended is waited for",
        SUCCESSION,
        "    while clock() < until and not await cluster.has_ended(before.process):\n",
        "    while clock() < until:\n",
    ),
    Mutant(
        "earlier layouts are not waited for",
        SUCCESSION,
        "    if stored is None:\n        return True\n",
        "    return True\n",
    ),
    Mutant(
        "an earlier layout waits for itself",
        SUCCESSION,
        "            if partition.generation >= mine.generation:\n",
        "            if False:\n",
    ),
    Mutant(
        "a partition whose holder may live counts as given up",
        SUCCESSION,
        "    if LeadershipRecord.unpack(stored).session != cluster.session:",
        "    if True:",
    ),
    Mutant(
        "an authority acts without leader_lease",
        OFFICE,
        "        return self._opened and not self._left and self.leader_lease.certain\n",
        "        return self._opened and not self._left\n",
    ),
    Mutant(
        "an authority acts before it has read the copies",
        OFFICE,
        "        return self._opened and not self._left and self.leader_lease.certain\n",
        "        return not self._left and self.leader_lease.certain\n",
    ),
    Mutant(
        "an authority listens on while it leaves its partition",
        OFFICE,
        "        return self._opened and not self._left and self.leader_lease.certain\n",
        "        return self._opened and self.leader_lease.certain\n",
    ),
    Mutant(
        "a partition that could not be given up never can be",
        OFFICE,
        "        self._left = False  # an attempt before may have failed\n",
        "",
    ),
    Mutant(
        "members are not heard while a partition is given up",
        SESSIONS,
        "            if hello.replica not in self._leadership.writer.row.members:\n",
        "            if True:\n",
    ),
    Mutant(
        "a replica of another layout is let in",
        OFFICE,
        "if self._closed or generation not in (None, self._partition.generation):",
        "if self._closed:",
    ),
    Mutant(
        "a partition that is being given up takes new sessions",
        OFFICE,
        "if self._closed or generation not in (None, self._partition.generation):",
        "if generation not in (None, self._partition.generation):",
    ),
    Mutant(
        "copies of an earlier start of the cluster count",
        OFFICE,
        "            stamp = cluster_stamp(self._cluster.session)\n",
        "            pass\n",
    ),
    Mutant(
        "resets of an earlier life are forgotten",
        OFFICE,
        "                    resets.restore(row.removeprefix(mine), unpack_epoch(value))\n",
        "                    pass\n",
    ),
    Mutant(
        "a copy that was written behind its reset is restored",
        OFFICE,
        "            if copy is None or resets.voids(key.run, copy.version.epoch):\n",
        "            if copy is None:\n",
    ),
    Mutant(
        "states of other partitions are taken over",
        OFFICE,
        "                    if self._partition.has(key):\n",
        "                    if True:\n",
    ),
    Mutant(
        "members that have not claimed are not waited for",
        RECOVERY,
        "        return bool(self._missing) and (self._waits or self._any_claims)\n",
        "        return bool(self._missing) and self._any_claims\n",
    ),
    Mutant(
        "a claim that is not complete is not waited for",
        RECOVERY,
        "        return bool(self._missing) and (self._waits or self._any_claims)\n",
        "        return bool(self._missing) and self._waits\n",
    ),
    Mutant(
        "dead members are waited for",
        RECOVERY,
        "                    self._hear(member)\n            left_s",
        "                    pass\n            left_s",
    ),
    Mutant(
        "members that talk to a later life are not waited for",
        RECOVERY,
        "        if not current:\n",
        "        if False:\n",
    ),
    Mutant(
        "members are given up while nobody can tell where they are led",
        RECOVERY,
        "            return  # nobody can tell where replicas are led\n",
        "            current = True\n",
    ),
    Mutant(
        "a part of a claim counts as all of it",
        AUTHORITY,
        "        if not part.last:\n",
        "        if False:\n",
    ),
    Mutant(
        "a claim is settled before every member was heard",
        RECOVERY,
        "            while self._active:\n                await self._wait()\n"
        "                renew()\n",
        "",
    ),
    Mutant(
        "the lease of a claim runs out while it waits for others",
        RECOVERY,
        "                renew()\n            yield",
        "            yield",
    ),
    Mutant(
        "a request for a state is carried out as often as it comes",
        AUTHORITY,
        "        self._sessions.renew(session).calls.take(call)\n"
        "        await self._recovery.over()\n",
        "        self._sessions.renew(session)\n        await self._recovery.over()\n",
    ),
    Mutant(
        "a commit is carried out as often as it comes",
        AUTHORITY,
        "        mine.calls.take(call)\n",
        "",
    ),
    Mutant(
        "a reset is carried out as often as it comes",
        AUTHORITY,
        "        self._sessions.renew(session).calls.take(call)\n"
        "        self._leadership.require_open()\n",
        "        self._sessions.renew(session)\n        self._leadership.require_open()\n",
    ),
    Mutant(
        "a very late call is taken for a new one",
        CALLS,
        " or number <= self._newest - REMEMBERED",
        "",
    ),
    Mutant(
        "what is remembered of calls grows for ever",
        CALLS,
        "if len(self._taken) > 2 * REMEMBERED:",
        "if False:",
    ),
    Mutant(
        "states are granted while claims are being settled",
        RECOVERY,
        "        while self._active or self._unsettled:\n",
        "        while self._active:\n",
    ),
    Mutant(
        "a copy from before a reset is accepted",
        RECOVERY,
        "        if self._resets.voids(key.run, version.epoch):\n            return False\n",
        "",
    ),
    Mutant(
        "a claim takes a state from its owner",
        RECOVERY,
        "        return record.owner in (None, session) and record",
        "        return record",
    ),
    Mutant(
        "an older copy takes the place of a newer one",
        RECOVERY,
        " and record.version < version\n",
        "\n",
    ),
    Mutant(
        "an outline is taken for the state that it names",
        RECOVERY,
        "            if len(hidden):\n",
        "            if len(hidden) or self._table.get(key):\n",
    ),
    Mutant(
        "a replica keeps a state that another one was granted since",
        RECOVERY,
        " and record.version == version:\n                kept",
        ":\n                kept",
    ),
    Mutant(
        "a replica keeps a state that another one owns",
        RECOVERY,
        "            if record and record.owner in (None, session) and record.version",
        "            if record and record.version",
    ),
    Mutant(
        "steps under an earlier grant count as kept",
        RECOVERY,
        "record.version.epoch == version.epoch and record.version >= version:",
        "record.version >= version:",
    ),
    Mutant(
        "a replica does not keep what its earlier session owned",
        RECOVERY,
        "            if record and record.owner in (None, session) and record.version",
        "            if record and record.owner is None and record.version",
    ),
    Mutant(
        "a claimed state that nobody owns is not written soon",
        RECOVERY,
        "                self._table.left(record)\n",
        "                pass\n",
    ),
    Mutant(
        "what is offered too late counts as taken",
        RECOVERY,
        " and record.version >= version:",
        ":",
    ),
    Mutant(
        "a reset is answered before the store has it",
        FORGETTING,
        "                await self._resets.keep(run, epoch, "
        "[snapshot_row(record.key) for record in records])\n",
        "                self._resets.note(run, epoch)\n",
    ),
    Mutant(
        "a reset has the epoch of the latest grant",
        FORGETTING,
        "            epoch = self._table.next_epoch()\n            try:\n",
        "            epoch = self._table.last_epoch\n            try:\n",
    ),
    Mutant(
        "a reset misses the states that are new while it waits",
        FORGETTING,
        "                await self._ownership.take(more, evictor)\n"
        "                records += more\n",
        "                await self._ownership.take(more, evictor)\n"
        "                records += more\n"
        "                break\n",
    ),
    Mutant(
        "two resets of a run go on at once",
        FORGETTING,
        "        async with self._locks.of(run):\n            evictor = Evictor()\n",
        "        if True:\n            evictor = Evictor()\n",
    ),
    Mutant(
        "a reset that failed keeps the states",
        FORGETTING,
        "            except BaseException:\n"
        "                for record in records:\n"
        "                    self._ownership.release(record)\n",
        "            except BaseException:\n                for record in ():\n"
        "                    self._ownership.release(record)\n",
    ),
    Mutant(
        "a run in use expires",
        FORGETTING,
        "if records and not self._table.used_since(run, idle_since):",
        "if records:",
    ),
    Mutant(
        "an expired run can be claimed back",
        FORGETTING,
        "                    self._resets.note(run, epoch)\n",
        "",
    ),
    Mutant(
        "a partition is given up with states still out",
        FORGETTING,
        "        while more := [record for record in self._table if record.owner",
        "        while more := [record for record in () if record.owner",
    ),
    Mutant(
        "a partition that is given up takes states from a reset that waits for others",
        FORGETTING,
        "        async with self._locks.of(run):  # or",
        "        if True:  # or",
    ),
    Mutant(
        "a reset is not remembered",
        RESETS,
        "            self.note(run, epoch)\n        finally:",
        "            pass\n        finally:",
    ),
    Mutant(
        "a reset is not written",
        RESETS,
        "            await self._writer.write("
        "{reset_row(self._partition, run): pack_epoch(epoch)}, erased)\n",
        "            await self._writer.write({}, erased)\n",
    ),
    Mutant(
        "a reset voids earlier epochs but its own",
        RESETS,
        "epoch <= self._void[run].epoch",
        "epoch < self._void[run].epoch - 1",
    ),
    Mutant(
        "resets are kept for ever",
        RESETS,
        "            for run in old:\n                del self._void[run]\n",
        "            return\n",
    ),
    Mutant(
        "a reset that is being written is pruned",
        RESETS,
        "            if run not in self._being_kept:\n                old.append(run)\n",
        "            old.append(run)\n",
    ),
    Mutant(
        "epochs begin anew after a restart",
        AUTHORITY,
        "        self._table.last_epoch = max(self._table.last_epoch, leadership.first_epoch)\n",
        "",
    ),
    Mutant(
        "the epochs of a layout begin below those of the layout before",
        OFFICE,
        "        return (self._partition.generation << 32 | self.writer.row.incarnation) << 32\n",
        "        return self.writer.row.incarnation << 32\n",
    ),
    Mutant(
        "a restored copy does not raise the epochs",
        TABLE,
        "        record.version, record.hidden, record.receipts = copy.version, copy.hidden, "
        "copy.receipts\n        self.last_epoch = max(self.last_epoch, copy.version.epoch)\n",
        "        record.version, record.hidden, record.receipts = copy.version, copy.hidden, "
        "copy.receipts\n",
    ),
    Mutant(
        "a receipt that was committed before is kept twice",
        TABLE,
        "if each.step > known)",
        "if True)",
    ),
    Mutant(
        "receipts grow for ever",
        TABLE,
        "(record.receipts + new)[-MAX_RECEIPTS:]",
        "record.receipts + new",
    ),
    Mutant(
        "a reset keeps the receipts",
        TABLE,
        "record.version, record.hidden, record.receipts = Version(epoch, 0), None, ()",
        "record.version, record.hidden = Version(epoch, 0), None",
    ),
    Mutant(
        "a commit is no use of its run",
        TABLE,
        "        self.use(record)\n",
        "",
    ),
    Mutant(
        "a checkout is no use of its run",
        AUTHORITY,
        "        self._table.use(record)\n",
        "",
    ),
    Mutant(
        "a commit is not copied",
        TABLE,
        "        self.use(record)\n        self._note(record)\n",
        "        self.use(record)\n",
    ),
    Mutant(
        "the copy of a cleared state stays",
        TABLE,
        "        self._copies.erase(record.key)\n",
        "",
    ),
    Mutant(
        "a state without an owner is not written soon",
        OWNERSHIP,
        "                return\n        self._table.left(record)\n",
        "                return\n",
    ),
    Mutant(
        "a dead owner keeps its states to the end of its lease",
        OWNERSHIP,
        "                dead = not await self._cluster.is_alive(session.replica)\n",
        "                dead = False\n",
    ),
    Mutant(
        "an owner is not asked to give back",
        OWNERSHIP,
        "        session.recalled.set()\n",
        "",
    ),
    Mutant(
        "a state is given to one who waits no more",
        OWNERSHIP,
        "            if not turn.granted.done():\n                self._give",
        "            if True:\n                self._give",
    ),
    Mutant(
        "a new session does not inherit",
        OWNERSHIP,
        "            session.owned |= earlier.owned\n",
        "            session.owned |= {}\n",
    ),
    Mutant(
        "what was inherited and not claimed stays owned",
        OWNERSHIP,
        "            self.release(record)\n        for record in list(session.owned.values()):\n",
        "            pass\n        for record in list(session.owned.values()):\n",
    ),
    Mutant(
        "a state wanted meanwhile is not recalled after the claim",
        OWNERSHIP,
        "        for record in list(session.owned.values()):\n"
        "            self.recall_if_wanted(record)\n",
        "",
    ),
    Mutant(
        "a cancelled wait leaves a state owned",
        OWNERSHIP,
        "                if not turn.cancel() and not turn.cancelled() and record.owner is owner:\n"
        "                    self.release(record)\n",
        "                turn.cancel()\n",
    ),
    Mutant(
        "a commit under an earlier grant is taken",
        AUTHORITY,
        "            if record is None or record.version.epoch != version.epoch:\n",
        "            if record is None:\n",
    ),
    Mutant(
        "a session's call does not renew its lease",
        SESSIONS,
        "        session.expires_at = self._clock() + self._grace_s\n        return session\n",
        "        return session\n",
    ),
    Mutant(
        "a session whose lease has run out is served",
        SESSIONS,
        "        if session is None or self._clock() > session.expires_at:\n",
        "        if session is None:\n",
    ),
    Mutant(
        "a session that has not claimed is served",
        SESSIONS,
        "        if session.claiming:\n            raise StaleSessionError(",
        "        if False:\n            raise StaleSessionError(",
    ),
    Mutant(
        "the cap on states is not kept",
        AUTHORITY,
        "if self._table.get(key) is None and self.n_states >= self._options.max_states_per_shard:",
        "if False:",
    ),
    Mutant(
        "a replica of another protocol is let in",
        SESSIONS,
        "    if hello.protocol != PROTOCOL:\n",
        "    if False:\n",
    ),
    Mutant(
        "a new member is not written down",
        SESSIONS,
        "        await self._leadership.writer.set_members(tuple(members))\n",
        "        pass\n",
    ),
    Mutant(
        "members that have not claimed yet are struck off",
        SESSIONS,
        "dict.fromkeys((*self._recovery.missing, *present, replica))",
        "dict.fromkeys((*present, replica))",
    ),
    Mutant(
        "states are granted during the recovery",
        AUTHORITY,
        "        await self._recovery.over()\n        mine = self._sessions.renew(session)\n",
        "        mine = self._sessions.renew(session)\n",
    ),
    Mutant(
        "a reset does not wait for the recovery",
        AUTHORITY,
        "        await self._recovery.over()\n        await self._eviction.reset(run)\n",
        "        await self._eviction.reset(run)\n",
    ),
    Mutant(
        "a grant leaves after the leader_lease has ended",
        AUTHORITY,
        "        self._leadership.require()\n        if record.owner is not mine:\n",
        "        if record.owner is not mine:\n",
    ),
    Mutant(
        "a state is recalled but not when it is wanted already at its grant",
        AUTHORITY,
        "        self._ownership.recall_if_wanted(record)\n        return Grant",
        "        return Grant",
    ),
    Mutant(
        "sessions end while the authority cannot tell whether it may act",
        AUTHORITY,
        "        if not self._leadership.may_act():\n            return\n",
        "",
    ),
    Mutant(
        "a durable commit does not wait for the store",
        AUTHORITY,
        "        await self._make_durable(states.keys)\n",
        "",
    ),
    Mutant(
        "a durable state is granted with receipts that the store does not have",
        AUTHORITY,
        "                await self._make_durable([key])\n",
        "                pass\n",
    ),
    Mutant(
        "a session is closed before its states are in the store",
        AUTHORITY,
        "        mine = self._sessions.renew(session)\n        await self._copies.flush()\n",
        "        mine = self._sessions.renew(session)\n",
    ),
    Mutant(
        "a partition is given up before its states are in the store",
        AUTHORITY,
        "            await self._copies.flush()\n            taken",
        "            taken",
    ),
    Mutant(
        "a partition is given up during the recovery",
        AUTHORITY,
        "        await self._recovery.over()\n        taken",
        "        taken",
    ),
    Mutant(
        "what is claimed at the last moment is not written before a partition is given up",
        AUTHORITY,
        "            taken = self._eviction.has_all",
        "            taken = True",
    ),
    Mutant(
        "a copy that could not be written is forgotten",
        COPIES,
        "            self._urgent = rows | self._urgent  # what came meanwhile is newer\n",
        "",
    ),
    Mutant(
        "an older copy overtakes a newer one after a failure",
        COPIES,
        "            self._urgent = rows | self._urgent  # what came meanwhile is newer\n",
        "            self._urgent = self._urgent | rows\n",
    ),
    Mutant(
        "an older copy overtakes a newer one when all are written",
        COPIES,
        "        self._urgent |= self._pending\n",
        "        self._urgent = self._pending | self._urgent\n",
    ),
    Mutant(
        "a flush is over before the write",
        COPIES,
        "                await flushed\n",
        "                pass\n",
    ),
    Mutant(
        "a key has another slot in every layout",
        LAYOUT,
        "    return slot_of(key) * shards // N_SLOTS\n",
        "    return slot_of(key) % (N_SLOTS - 1) * shards // N_SLOTS\n",
    ),
    Mutant(
        "a layout does not name the partitions before it",
        LAYOUT,
        "earlier=tuple(remaining))",
        "earlier=())",
    ),
    Mutant(
        "a layout is changed without a new generation",
        LAYOUT,
        "generation=present.generation + 1",
        "generation=present.generation",
    ),
]
