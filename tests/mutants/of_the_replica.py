"""Defects of a replica, and of the way between the two."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STEPPER = "stateful/replica/stepper.py"
QUEUES = "stateful/replica/queues.py"
RECEIPTS = "stateful/replica/receipts.py"
LEASES = "stateful/replica/leases.py"
SESSION = "stateful/replica/session.py"
CLAIMS = "stateful/replica/claims.py"
COMMITS = "stateful/replica/commits.py"
HELD = "stateful/replica/held_states.py"
HELD_STATE = "stateful/replica/held_state.py"
RECENT = "stateful/replica/recent.py"
PROCESS = "stateful/ray/process.py"
CHANNEL = "stateful/ray/commit_channel.py"

MUTANTS = [
    Mutant(
        "a claim that is lost is not sent again",
        SESSION,
        "CLAIMS_IN_A_LEASE = 3\n",
        "CLAIMS_IN_A_LEASE = 1\n",
    ),
    Mutant(
        "the refusal of a repeated claim counts, and not the answer to it",
        SESSION,
        "                return min(answered, key=_has_failed).result()\n",
        "                return max(answered, key=_has_failed).result()\n",
    ),
    Mutant(
        "a listen that hangs outlives its session",
        LEASES,
        "        self._stop_listening_to_ended_sessions()\n",
        "",
    ),
    Mutant(
        "a replaced session ends the listening to the new one",
        LEASES,
        "            if session != self._session.number and not patience.expired():\n",
        "            if not patience.expired():\n",
    ),
    Mutant(
        "nothing is ever overdue",
        COMMITS,
        "        return self._loop.time() - oldest > self._loss_bound_s\n",
        "        return False\n",
    ),
    Mutant(
        "a commit that hangs is not overdue",
        COMMITS,
        "        oldest = min(self._oldest_sent, self._oldest_unsent)\n",
        "        oldest = self._oldest_unsent\n",
    ),
    Mutant(
        "a commit that failed is young again",
        COMMITS,
        "            self._oldest_unsent = min(self._oldest_sent, self._oldest_unsent)\n",
        "            self._oldest_unsent = self._loop.time()\n",
    ),
    Mutant(
        "what was not sent is forgotten",
        COMMITS,
        "            self._held.unsent(stepped, leaving)\n",
        "",
    ),
    Mutant(
        "a reset that comes too late for its session is not tried again",
        "stateful/replica/leases.py",
        "        except (StaleSessionError, AuthorityUnavailableError) as error:\n"
        "            await self._replace_session(session, error)\n            return False\n",
        "        except AuthorityUnavailableError as error:\n"
        "            await self._replace_session(session, error)\n            return False\n",
    ),
    Mutant(
        "a refused state is kept",
        COMMITS,
        "                self._claims.lose(state)\n            else:\n",
        "                pass\n            else:\n",
    ),
    Mutant(
        "states are given back although the commit has refused them",
        COMMITS,
        "            if state.key not in refused:\n                self._claims.give_back(state)\n",
        "            self._claims.give_back(state)\n",
    ),
    Mutant(
        "a commit renews the lease from its answer",
        COMMITS,
        "        self._session.renew(number, sent_at)\n",
        "        self._session.renew(number, self._session._now())\n",
    ),
    Mutant(
        "strict answers leave at once",
        LEASES,
        "        return self._options.strict or self._commits.overdue or not self._session.valid\n",
        "        return self._commits.overdue or not self._session.valid\n",
    ),
    Mutant(
        "overdue answers leave at once",
        LEASES,
        "        return self._options.strict or self._commits.overdue or not self._session.valid\n",
        "        return self._options.strict or not self._session.valid\n",
    ),
    Mutant(
        "a state is stepped after the end of the lease",
        LEASES,
        "        may_step = self._session.valid and not self._closing\n",
        "        may_step = not self._closing\n",
    ),
    Mutant(
        "a replica that closes goes on stepping",
        LEASES,
        "        may_step = self._session.valid and not self._closing\n",
        "        may_step = self._session.valid\n",
    ),
    Mutant(
        "a listen renews the lease from its answer",
        LEASES,
        "                self._session.renew(session, sent_at)\n",
        "                self._session.renew(session, self._now())\n",
    ),
    Mutant(
        "a grant that crosses a claim is stepped",
        LEASES,
        "                await self._replace_session(session)\n            granted",
        "                pass\n            granted",
    ),
    Mutant(
        "a grant of an earlier session is stepped",
        LEASES,
        "            granted = session == self._session.number\n",
        "            granted = True\n",
    ),
    Mutant(
        "a reset is tried once only",
        LEASES,
        "                while not await self._try_reset(run):\n",
        "                if not await self._try_reset(run):\n",
    ),
    Mutant(
        "a reset that nobody confirmed counts as refused",
        LEASES,
        "            raise OutcomeUnknownError from None\n",
        "            raise StaleSessionError from None\n",
    ),
    Mutant(
        "a dead loop leaves the lease to run out",
        LEASES,
        "        self._session.abandon()\n",
        "",
    ),
    Mutant(
        "a replica closes before its last commit",
        LEASES,
        "                await asyncio.wait([committing])\n",
        "",
    ),
    Mutant(
        "a replica closes without giving its states back",
        LEASES,
        "        self._held.recall_all()\n",
        "",
    ),
    Mutant(
        "a replica that could not leave leaves",
        LEASES,
        "                while not await self._try_to_leave():\n",
        "                if not await self._try_to_leave():\n",
    ),
    Mutant(
        "a session that has ended is valid",
        SESSION,
        "        return self._now() < self._lease_until and not self._ended "
        "and not self._abandoned\n",
        "        return self._now() < self._lease_until and not self._abandoned\n",
    ),
    Mutant(
        "a lease lasts for ever",
        SESSION,
        "        return self._now() < self._lease_until and not self._ended "
        "and not self._abandoned\n",
        "        return not self._ended and not self._abandoned\n",
    ),
    Mutant(
        "a process that hangs keeps a replica from the next life of the authority",
        SESSION,
        "        async with asyncio.timeout(self._open_timeout_s):\n",
        "        async with asyncio.timeout(CALL_TIMEOUT_S):\n",
    ),
    Mutant(
        "an answer of an earlier session renews the lease",
        SESSION,
        "        if number == self.number:\n",
        "        if True:\n",
    ),
    Mutant(
        "a lease counts from the answer to the claim",
        SESSION,
        "        self._lease_until = sent_at + opened.lease_s\n",
        "        self._lease_until = self._now() + opened.lease_s\n",
    ),
    Mutant(
        "what has expired is claimed",
        SESSION,
        "        expired = sent_at - self._lease_until > self._forget_after_s\n",
        "        expired = False\n",
    ),
    Mutant(
        "a dismissed replica goes on trying",
        SESSION,
        "                except DismissedError:\n"
        "                    self._abandoned = True\n"
        "                    raise\n",
        "",
    ),
    Mutant(
        "what was given back is not claimed",
        CLAIMS,
        "        past = [copy for copy in self._recent.copies() "
        "if not self._held.is_claimable(copy.key)]\n",
        "        past: list[HeldCopy] = []\n",
    ),
    Mutant(
        "what is about to be given back is not claimed",
        CLAIMS,
        "[*past, *leaving]",
        "[*past]",
    ),
    Mutant(
        "the first part of a claim counts as the last",
        CLAIMS,
        "            last = number == len(slices)\n",
        "            last = True\n",
    ),
    Mutant(
        "what is wanted in full is not sent",
        CLAIMS,
        "            self._owned += [copy for copy in part.owned if copy.key in wanted]\n",
        "",
    ),
    Mutant(
        "what was given back and is wanted in full is not sent",
        CLAIMS,
        "            self._given_back += [copy for copy in part.given_back "
        "if copy.key in wanted]\n",
        "",
    ),
    Mutant(
        "what was claimed counts as never sent",
        CLAIMS,
        "                each.sent = each.version.step\n",
        "",
    ),
    Mutant(
        "answers of a state that was not kept hang",
        CLAIMS,
        "        for state in self._held.keep(kept):\n            state.give_up()\n",
        "        self._held.keep(kept)\n",
    ),
    Mutant(
        "a session that began without a claim keeps what the one before had",
        CLAIMS,
        "        self._begin()  # an attempt before may have failed on its way\n",
        "",
    ),
    Mutant(
        "a claim that was refused counts as kept",
        CLAIMS,
        "            if copy.key in self._lost:\n",
        "            if False:\n",
    ),
    Mutant(
        "a state that was about to be given back is owned after a claim",
        CLAIMS,
        "            if owned:\n",
        "            if True:\n",
    ),
    Mutant(
        "a copy that was taken over is not remembered",
        CLAIMS,
        "                self._recent.note(copy)\n",
        "                pass\n",
    ),
    Mutant(
        "a state given back is not remembered",
        CLAIMS,
        "        self._recent.note(state.copy)\n",
        "",
    ),
    Mutant(
        "a step that may have been committed counts as not made",
        HELD_STATE,
        "            if each.step <= self.sent:\n",
        "            if False:\n",
    ),
    Mutant(
        "a commit answers steps that it does not have",
        HELD_STATE,
        "        due = [each for each in self.unanswered if each.step <= up_to_step]\n",
        "        due = list(self.unanswered)\n",
    ),
    Mutant(
        "receipts do not move with the state",
        HELD,
        "        state.version, state.receipts = grant.version, ReceiptCache(grant.receipts)\n",
        "        state.version, state.receipts = grant.version, ReceiptCache()\n",
    ),
    Mutant(
        "a claim leaves the receipts out",
        HELD_STATE,
        "return HeldCopy(self.key, self.version, self.hidden, self.receipts.all())",
        "return HeldCopy(self.key, self.version, self.hidden, ())",
    ),
    Mutant(
        "a commit leaves the receipts out",
        HELD_STATE,
        "        new = self.receipts.since(self.committed)\n",
        "        new = ()\n",
    ),
    Mutant(
        "a state that could not be sent is not sent again",
        HELD,
        "            if self._held.get(state.key) is state:\n"
        "                self._outbox[state.key] = state\n",
        "            pass\n",
    ),
    Mutant(
        "a released state that was granted anew is forgotten",
        HELD,
        "        if self._held.get(state.key) is state and state.phase is Phase.LEAVING:\n",
        "        if state.phase is Phase.LEAVING:\n",
    ),
    Mutant(
        "copies that were given back are kept for ever",
        RECENT,
        "            if self._given_back[key].at >= too_old:\n",
        "            if True:\n",
    ),
    Mutant(
        "the same key with another observation gets the first answer",
        RECEIPTS,
        "            raise KeyReusedError\n        return receipt\n",
        "            pass\n        return receipt\n",
    ),
    Mutant(
        "a receipt is sent but not the one before",
        RECEIPTS,
        "            later.append(receipt)\n",
        "            return (receipt,)\n",
    ),
    Mutant(
        "keys are remembered for ever",
        RECEIPTS,
        "        if len(self._by_request) > MAX_RECEIPTS:\n",
        "        if False:\n",
    ),
    Mutant(
        "a repeated request is answered before its step is committed",
        STEPPER,
        "            committed = receipt.step <= state.committed\n",
        "            committed = True\n",
    ),
    Mutant(
        "a repeated request steps again",
        STEPPER,
        "            if receipt is None:\n                return request\n",
        "            return request\n",
    ),
    Mutant(
        "a step leaves no receipt",
        STEPPER,
        "    if request.request_id is None:\n        return None\n    action",
        "    return None\n    action",
    ),
    Mutant(
        "a step that was made is refused when its patience is at an end",
        STEPPER,
        "        if not request.stepped and self._queues.is_parked(request.key):\n",
        "        if self._queues.is_parked(request.key):\n",
    ),
    Mutant(
        "a request whose state is here is refused for want of it",
        STEPPER,
        "        if not request.stepped and self._queues.is_parked(request.key):\n",
        "        if not request.stepped:\n",
    ),
    Mutant(
        "a step that is not finite changes the state",
        STEPPER,
        "                self._refuse_step(request, agent)\n                continue\n",
        "                self._refuse_step(request, agent)\n",
    ),
    Mutant(
        "a long queue holds the loop",
        STEPPER,
        "            if time.perf_counter() > until and self._queues.has_ready:\n",
        "            if False:\n",
    ),
    Mutant(
        "a request that waits for its state has no deadline",
        STEPPER,
        "            self._loop.call_later(request.patience_s, self._lose_patience, request)\n",
        "            pass\n",
    ),
    Mutant(
        "an answer waits for its commit for ever",
        QUEUES,
        "                answer.set_exception(OutcomeUnknownError())\n",
        "                pass\n",
    ),
    Mutant(
        "a request that was given up is stepped",
        QUEUES,
        "            request = None if first.answer.done() else first\n",
        "            request = first\n",
    ),
    Mutant(
        "a state that has come waits behind the others",
        QUEUES,
        "            self._ready.move_to_end(key, last=False)\n",
        "",
    ),
    Mutant(
        "a process that has ended counts as living",
        PROCESS,
        "its_node == node and _started(int(pid)) != started",
        "False",
    ),
    Mutant(
        "a process of another node counts as ended",
        PROCESS,
        "its_node == node and _started(int(pid)) != started",
        "_started(int(pid)) != started",
    ),
    Mutant(
        "a commit that was refused for want of leader_lease counts as taken",
        CHANNEL,
        '            raise AuthorityUnavailableError(answer["unavailable"])\n',
        "            return []\n",
    ),
    Mutant(
        "a connection is used after a commit was given up on it",
        CHANNEL,
        "would be this one's\n            self.close()\n",
        "would be this one's\n",
    ),
]
