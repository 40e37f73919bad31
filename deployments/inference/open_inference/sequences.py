"""Starts and ends of sequences, each made once for all attempts at a request.

An end removes the idempotency keys of its run with the states. So what the rows of the run were
answered is remembered with the end.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from deployments.inference.errors import refusal_of
from deployments.inference.open_inference.steps import Sequences
from deployments.inference.service import Predictions
from deployments.stateful.calls import StepResult
from deployments.stateful.engine import Engine
from deployments.stateful.errors import KeyReusedError

Known = dict[int, StepResult | Exception]
"""Outcomes by row."""

_AT_ONCE = 64
_DIGEST_BYTES = 16


async def start(engine: Engine, sequences: Sequences) -> Known:
    """Start the runs of a request if it asks for that.

    Returns:
        The outcomes of rows whose run an earlier attempt at the request has ended. Such a run is
        not started again.
    """
    known: Known = {}

    async def start_run(run: str, rows: list[int]) -> None:
        key = _key_of(sequences, rows)
        if sequences.ends and key is not None:
            ended = await engine.done("end", run, key)
            if ended is not None:
                known.update(_remembered(sequences, rows, ended))
                return
        if sequences.starts:
            await engine.reset(run, key, kind="start")

    if sequences.starts or sequences.ends:
        await _for_each(sequences.rows, start_run)
    return known


async def end(
    engine: Engine, sequences: Sequences, made: Predictions, ended_before: Known
) -> Predictions:
    """End the runs of a request if it asks for that, but none of which a row has failed.

    Args:
        ended_before: outcomes of rows whose run has ended, as from :func:`start`.

    Returns:
        The outcomes of all rows.
    """
    known: Known = {}

    async def end_run(run: str, rows: list[int]) -> None:
        if rows[0] in ended_before:
            return
        key, ended = _key_of(sequences, rows), None
        failed = not made.errors.keys().isdisjoint(rows)
        if key is not None:  # another attempt may have been made meanwhile
            ended = await engine.done("end", run, key)
        if ended is None and failed:
            return
        answers = {
            "digest": _digest_of(sequences, rows),
            "outputs": [made.outputs[row] for row in rows],
            "steps": [made.steps[row] for row in rows],
        }
        if ended is None:
            ended = await engine.reset(run, key, kind="end", result=answers)
        if ended["steps"] != answers["steps"]:
            known.update(_remembered(sequences, rows, ended))
            await engine.reset(run)  # of what this attempt has made of the run after its end

    if not sequences.ends:
        return made
    await _for_each(sequences.rows, end_run)
    outputs, steps, errors = list(made.outputs), list(made.steps), dict(made.errors)
    for row, outcome in known.items():
        errors.pop(row, None)
        if isinstance(outcome, Exception):
            outputs[row], errors[row] = None, refusal_of(outcome)
        else:
            outputs[row], steps[row] = outcome
    return Predictions(outputs, steps, errors)


async def _for_each(
    rows: Mapping[str, list[int]], work: Callable[[str, list[int]], Awaitable[None]]
) -> None:
    some = asyncio.Semaphore(_AT_ONCE)

    async def limited(run: str, numbers: list[int]) -> None:
        async with some:
            await work(run, numbers)

    works = (limited(*each) for each in rows.items())
    # none may go on after the response
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _key_of(sequences: Sequences, rows: list[int]) -> str | None:
    """Return the key of a run's start and end, which is that of all its rows; None without one."""
    ids = sequences.steps.ids
    return None if ids is None else _hex(ids[rows].tobytes())


def _digest_of(sequences: Sequences, rows: list[int]) -> str:
    """Return a digest of the junctions and observations of rows."""
    prints, keys = sequences.steps.prints, sequences.steps.keys
    if prints is None:
        return ""
    names = "\0".join(keys[row].entity for row in rows)
    return _hex(prints[rows].tobytes() + names.encode())


def _hex(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def _remembered(sequences: Sequences, rows: list[int], ended: Mapping[str, Any]) -> Known:
    if ended["digest"] != _digest_of(sequences, rows):
        return dict.fromkeys(rows, KeyReusedError())
    made = zip(ended["outputs"], ended["steps"], strict=True)
    results = (StepResult(tuple(output), step) for output, step in made)
    return dict(zip(rows, results, strict=True))
