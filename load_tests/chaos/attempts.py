"""Makes one of several attempts at one request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from load_tests.chaos.history import Asked, Outcome


def steps_of(asked: Iterable[Asked]) -> list[Asked]:
    """Return one prediction for each step that was made, or may have been, for one hidden state.

    Attempts with one idempotency key are one step, made before the first answer to any of them.
    Answers that differ are steps of their own: the later one was made anew.
    """
    attempts: dict[str, list[Asked]] = defaultdict(list)
    steps = []
    for each in asked:
        if each.request is None:
            steps.append(each)
        else:
            attempts[each.request].append(each)
    for same in attempts.values():
        steps += _steps_of_one(same)
    return steps


def _steps_of_one(attempts: list[Asked]) -> Iterator[Asked]:
    first = min(attempts, key=lambda each: each.sent)
    answers: dict[tuple[int, bytes], list[Asked]] = defaultdict(list)
    for each in sorted(attempts, key=lambda each: each.done):
        if each.outcome is Outcome.ANSWERED:
            answers[each.step, each.body].append(each)
    for number, same in enumerate(answers.values()):
        since = min(each.sent for each in same) if number else first.sent
        yield replace(same[0], sent=since)
    if not answers:
        unknown = [each for each in attempts if each.outcome is Outcome.UNKNOWN]
        last = max(unknown or attempts, key=lambda each: each.done)
        yield replace(last, sent=first.sent)
