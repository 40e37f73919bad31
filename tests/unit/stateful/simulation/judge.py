"""The invariants of what clients see, checked against everything that happened in a cluster.

The steps of a key form a tree: the parent of a step is the state that it was made from. The
answered ones among them must form one line: each request exactly once, in order, without forks,
and without states from before a reset. A step that left this line is lost, and :mod:`.excuses` must
name the fault that excuses it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations, pairwise
from math import inf

from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.cluster import SimulatedCluster
from tests.unit.stateful.simulation.excuses import Excuses, Lost, Violation
from tests.unit.stateful.simulation.history import Outcome, Request, ResetCall, Step
from tests.unit.stateful.simulation.times import MOST_KEYS

SLACK_S = 0.05


class Judge:
    """Judges a cluster's history.

    Attributes:
        excused: how often each fault excused the loss of a step.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.excused: Counter[str] = Counter()
        self._cluster = cluster
        self._history = cluster.history
        self._excuses = Excuses(cluster)
        self._requests = {each.number: each for each in self._history.requests}

    def judge(self) -> None:
        """Raise Violation for the first violated invariant."""
        if self._history.defects:
            raise Violation(f"a defect: {self._history.defects[0]}")
        for request, n in Counter(step.request for step in self._history.steps).items():
            if n > 1 and self._requests[request].request_id is None:
                raise Violation(f"{self._requests[request]} was stepped {n} times")
        for step in self._history.steps:
            if step.parent and self._history.step(step.parent).policy != step.policy:
                raise Violation(f"{step} continues from a state of another policy")
        self._judge_deadlines()
        responded: dict[Key, list[Request]] = defaultdict(list)
        for each in self._history.requests:
            if each.outcome is Outcome.RESPONDED:
                self._judge_response(each)
                responded[each.key].append(each)
        for key, requests in responded.items():
            self._judge_line(key, requests)
            self._judge_repeated(requests)
        self._excuses.judge_bound()
        self.excused = self._excuses.used

    def _judge_response(self, request: Request) -> None:
        """Check that a response has its own step, committed if it must be."""
        step = self._history.step(request.state)
        first = self._requests[step.request]
        own = request is first or (
            request.request_id is not None and request.request_id == first.request_id
        )
        if not own or request.junction != first.junction:
            raise Violation(f"{request} was answered with the step of {first}")
        if request.step != step.depth:
            raise Violation(f"{request} is number {step.depth} since the initial state")
        committed_at, ended = step.committed_at, request.ended or 0.0
        waits = self._cluster.options_of(step.replica).responses_wait
        if waits and (committed_at is None or committed_at > ended):
            raise Violation(f"{request} was answered without a commit")
        root = self._history.step(step.root)
        if self._cluster.are_of_one_start(root.replica, step.replica):
            return  # another cluster had the states meanwhile, and has ended
        for restart, following in pairwise([*self._history.restarts, inf]):
            (options,) = self._cluster.options_between(restart, restart)
            acted = any(restart < each.at < following for each in self._history.steps)
            applies = root.at < restart < step.at and acted and not options.restores
            if applies and not self._history.was_brought_back(first.key, root, restart, step.at):
                raise Violation(f"{request} continues from before the restart at {restart}")

    def _judge_line(self, key: Key, requests: Sequence[Request]) -> None:
        """Follow the answered steps of a key in the order in which they were made."""
        line: list[Step] = []  # answered, and not lost so far
        on_line: set[int] = set()
        for number in sorted({each.state for each in requests}):
            newest = self._history.step(number)
            if self._excuses.is_void_after_pause(key, newest):
                continue
            meeting = 0
            for step in self._history.line(number):
                if step.number in on_line:
                    meeting = step.number
                    break
                self._judge_ancestor(newest, step)
            while line and line[-1].number != meeting:
                on_line.remove(line[-1].number)
                self._excuses.excuse(Lost(key, line.pop(), newest))
            self._judge_resets(key, newest)
            line.append(newest)
            on_line.add(number)

    def _judge_ancestor(self, newest: Step, step: Step) -> None:
        """Check that a line has no step of a request that failed or was cancelled before it."""
        request = self._requests[step.request]
        if request.outcome not in (Outcome.REFUSED, Outcome.CANCELLED) or request.ended is None:
            return
        if request.outcome is Outcome.CANCELLED and step.at <= request.ended:
            return  # the client left before the response
        if request.request_id is None:
            raise Violation(f"{newest} follows {request}, which was refused")

    def _judge_resets(self, key: Key, step: Step) -> None:
        root = self._history.step(step.root)
        for reset in self._history.resets:
            over = reset.done is not None and reset.done <= step.at
            lost_at = (*self._history.accepted, *self._history.forgotten)
            if over and any(reset.sent <= at <= step.at for at in lost_at):
                continue  # the store may have lost it
            if not over or reset.run != key.run or root.at >= reset.sent:
                continue
            if not self._continues_from_write(key, step, reset):
                raise Violation(f"{step} continues from {root}, before {reset}")

    def _continues_from_write(self, key: Key, step: Step, reset: ResetCall) -> bool:
        """Return whether a step continues from what this or a later call has written."""
        return any(
            write.run == key.run
            and (write.done is None or write.done >= reset.sent)
            and write.written.get(key) in {each.number for each in self._history.line(step.number)}
            for write in self._history.resets
        )

    def _judge_repeated(self, requests: Sequence[Request]) -> None:
        """Check that no repeated request was stepped twice in one line."""
        by_id: dict[str, set[int]] = defaultdict(set)
        for request in requests:
            for step in self._history.line(request.state):
                request_id = self._requests[step.request].request_id
                if request_id is not None:
                    by_id[request_id].add(step.number)
        for request_id, numbers in by_id.items():
            for one, other in combinations(sorted(numbers), 2):
                if self._history.descends(other, one) and self._keeps_key(one, other):
                    raise Violation(f"{request_id} was stepped twice: states {one} and {other}")

    def _keeps_key(self, one: int, other: int) -> bool:
        """Return whether a state before another one still has the key of an earlier step."""
        keys = 0
        for step in self._history.line(self._history.step(other).parent):
            keys += self._requests[step.request].request_id is not None
            if step.number == one:
                return keys <= MOST_KEYS
        return False

    def _judge_deadlines(self) -> None:
        options = self._cluster.options
        longest_s = 1.06 * (options.checkout_timeout_s + options.commit_timeout_s) + SLACK_S
        for request in self._history.requests:
            end = self._cluster.loop.now if request.ended is None else request.ended
            if request.outcome is Outcome.PENDING and self._is_gone(request.replica):
                continue
            stalled_s = sum(
                min(fault.end, end) - max(fault.begin, request.sent)
                for fault in self._history.faults
                if fault.is_standstill
                and fault.target == request.replica
                and fault.overlaps(request.sent, end)
            )
            if end - request.sent - stalled_s > longest_s + self._cluster.slowest_message_s:
                raise Violation(f"{request} has hung")

    def _is_gone(self, name: str) -> bool:
        return any(replica.name == name and replica.dead for replica in self._cluster.replicas)


def judge_recovery(cluster: SimulatedCluster, last: Sequence[Request]) -> None:
    """Check, after all faults, that every replica serves every key, and that snapshots follow.

    Args:
        last: the requests.
    """
    for request in last:
        if request.outcome is not Outcome.RESPONDED:
            raise Violation(f"the service has not recovered: {request}")
    newest = {request.key: request.state for request in last}
    for key, number in newest.items():
        if number not in {written for _, written in cluster.history.snapshots.get(key, ())}:
            raise Violation(f"the store does not have the newest state of {key}: {number}")
