"""The laws of what clients see, and the search for a breach of them in a history.

Every step is in one tree for each key: its parent is the state that it was made from. The answered
ones among them must be one line: exactly once, in order, never forked, never from before a reset.
A step that left this line is lost, which :mod:`.excuses` has to excuse by a fault that it names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.excuses import Breach, Excuses, Lost
from tests.unit.stateful.simulation.history import Asked, History, Made, Outcome
from tests.unit.stateful.simulation.world import World

SLACK_S = 0.05


class Judge:
    """Attributes:
    excused: how often each fault has excused the loss of a step.
    """

    def __init__(self, world: World) -> None:
        self.excused: Counter[str] = Counter()
        self._world = world
        self._history: History = world.history
        self._excuses = Excuses(world)
        self._asked = {each.number: each for each in self._history.asked}

    def judge(self) -> None:
        """Raise Breach at the first breach of a law."""
        if self._history.defects:
            raise Breach(f"a defect: {self._history.defects[0]}")
        made = Counter(state.request for state in self._history.states)
        ids = {a.number for a in self._history.asked if a.request_id is not None}
        for request, n in made.items():
            if n > 1 and request not in ids:
                raise Breach(f"{self._asked[request]} was stepped {n} times")
        self._judge_deadlines()
        answered: dict[Key, list[Asked]] = defaultdict(list)
        for asked in self._history.asked:
            if asked.outcome is Outcome.ANSWERED:
                self._judge_answer(asked)
                answered[asked.key].append(asked)
        for key, answers in answered.items():
            self._judge_line(key, answers)
            self._judge_repeated(key, answers)
        self._excuses.judge_bound()
        self.excused = self._excuses.used

    def _judge_answer(self, asked: Asked) -> None:
        """One answer by itself: of its own step, and of nothing else's."""
        state = self._history.made(asked.state)
        first = self._asked[state.request]
        own = asked is first or (
            asked.request_id is not None and asked.request_id == first.request_id
        )
        if not own or asked.key != first.key:
            raise Breach(f"{asked} was answered with the step of {first}")
        if asked.step != state.depth:
            raise Breach(f"{asked} is number {state.depth} since zeros")
        committed_at, ended = state.committed_at, asked.ended or 0.0
        if self._world.options.responses_wait and (committed_at is None or committed_at > ended):
            raise Breach(f"{asked} was answered without a commit, in strict mode")
        for restart in self._history.restarts:
            before = self._history.made(state.root).at < restart < state.at
            if before and not self._world.options.restore_after_restart:
                raise Breach(f"{asked} continues from before the restart at {restart}")

    def _judge_line(self, key: Key, answers: list[Asked]) -> None:
        """Follow the answered steps of a key in the order in which they were made."""
        line: list[Made] = []  # answered, and not lost so far
        on_line: set[int] = set()
        for number in sorted({asked.state for asked in answers}):
            state = self._history.made(number)
            meeting = 0
            for step in self._history.line(number):
                if step.number in on_line:
                    meeting = step.number
                    break
                self._judge_ancestor(state, step)
            while line and line[-1].number != meeting:
                on_line.remove(line[-1].number)
                self._excuses.excuse(Lost(key, line.pop(), state))
            self._judge_resets(key, state)
            line.append(state)
            on_line.add(number)

    def _judge_ancestor(self, state: Made, step: Made) -> None:
        asked = self._asked[step.request]
        if asked.outcome in (Outcome.REFUSED, Outcome.CANCELLED) and asked.ended is not None:
            if asked.outcome is Outcome.CANCELLED and step.at <= asked.ended:
                return  # it was made, and the client left before its answer
            if asked.request_id is None:
                raise Breach(f"{state} comes after {asked}, which was refused")

    def _judge_resets(self, key: Key, state: Made) -> None:
        root = self._history.made(state.root)
        for reset in self._history.resets:
            over = reset.done is not None and reset.done <= state.at
            if over and reset.run == key.run and root.at < reset.sent:
                raise Breach(f"{state} continues from {root}, before {reset}")

    def _judge_repeated(self, key: Key, answers: list[Asked]) -> None:
        """Raise Breach when a repeated request was stepped twice in one line."""
        by_id: dict[str, set[int]] = defaultdict(set)
        for asked in answers:
            for step in self._history.line(asked.state):
                request_id = self._asked[step.request].request_id
                if request_id is not None:
                    by_id[request_id].add(step.number)
        for request_id, numbers in by_id.items():
            for one, other in _pairs(sorted(numbers)):
                if self._history.descends(other, one):
                    raise Breach(f"{request_id} was stepped twice: states {one} and {other}")

    def _judge_deadlines(self) -> None:
        options = self._world.options
        longest = 1.06 * (options.checkout_timeout_s + options.commit_timeout_s) + SLACK_S
        for asked in self._history.asked:
            end = self._world.loop.now if asked.ended is None else asked.ended
            if asked.outcome is Outcome.PENDING and self._is_gone(asked.replica):
                continue
            stalls = sum(
                min(fault.end, end) - max(fault.begin, asked.sent)
                for fault in self._history.faults
                if fault.kind == "stalled"
                and fault.who == asked.replica
                and fault.overlaps(asked.sent, end)
            )
            if end - asked.sent - stalls > longest + self._world.slowest_message_s:
                raise Breach(f"{asked} has hung")

    def _is_gone(self, name: str) -> bool:
        return any(replica.name == name and replica.dead for replica in self._world.replicas)


def judge_recovery(world: World, last: list[Asked]) -> None:
    """When all faults are over, every replica answers for every key, and copies follow."""
    for asked in last:
        if asked.outcome is not Outcome.ANSWERED:
            raise Breach(f"the service has not recovered: {asked}")
    newest = {asked.key: asked.state for asked in last}
    for key, number in newest.items():
        if number not in {copied for _, copied in world.history.copies.get(key, ())}:
            raise Breach(f"the store does not have the newest state of {key}: {number}")


def _pairs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    for index, one in enumerate(numbers):
        for other in numbers[index + 1 :]:
            yield one, other
