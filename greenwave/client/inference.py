"""The calls of the inference service itself: past the gateway, without its login and fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from greenwave.client import tensors
from greenwave.client.call import Call, Effect, Reply
from greenwave.client.errors import InvalidInputError
from greenwave.client.inputs import (
    checked_key,
    items,
    numbers,
    run_headers,
    text,
)
from greenwave.client.results import (
    FailedPrediction,
    InferenceHealth,
    PolicyInfo,
    Prediction,
    Predictions,
    RunInfo,
    RunSteps,
    SnakeForm,
)
from greenwave.client.service import (
    Mode,
    Perform,
    ProbedService,
    Service,
    nothing,
    operation,
    reading,
)
from greenwave.client.tensors import Array, Rows


class Observed(NamedTuple):
    """One of several observations.

    Attributes:
        key: of an earlier step, to get its prediction again.
    """

    junction: str
    observation: Sequence[float]
    key: str | None = None


class _Runs(SnakeForm):
    runs: list[RunInfo]


class _Items(SnakeForm):
    items: list[Prediction | FailedPrediction]


_PASSING = ("overloaded", "outcome_unknown")


class InferenceRun(Service[Mode]):
    """Predictions of the inference service itself for the junctions of one simulation run.

    Args:
        name: 1 to 64 of ``A-Z a-z 0-9 . _ : -``; None for the run ``default``.
    """

    def __init__(
        self,
        perform: Perform,
        url: str,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(perform, url, headers)
        self._run = run_headers(name)
        self._path = f"/runs/{name or 'default'}"

    @operation
    def predict(
        self, junction: str, observation: Sequence[float], *, key: str | None = None
    ) -> Call[Prediction]:
        """Make one step of a junction's memory, and return the action that the policy chose.

        Args:
            observation: at most 19 numbers of the shipped network.
            key: of an earlier step, to get its prediction again.
        """
        key = checked_key(key)
        return self._call(
            "POST",
            "/predict_action",
            partial(_read_prediction, junction, key),
            Effect.IDEMPOTENT,
            key=key,
            json=_item(junction, observation),
            headers=self._run,
        )

    @operation
    def predict_many(
        self, observed: Iterable[Observed | tuple[str, Sequence[float]]]
    ) -> Call[list[Prediction | FailedPrediction]]:
        """Make a step for each of up to 1,000 observations, and return the results in their order.

        One that fails does not concern the others.
        """
        given = map(_observed, items(observed, "Pairs of junction and observation"))
        asked = [
            {**_item(each.junction, each.observation), "request_id": checked_key(each.key)}
            for each in given
        ]
        read = partial(_read_items, asked)
        json = {"items": asked}
        path, effect = "/predict_actions", Effect.IDEMPOTENT
        return self._call("POST", path, read, effect, json=json, headers=self._run)

    @operation
    def reset(self) -> Call[None]:
        """Clear the hidden states of this run."""
        path, effect = "/reset_hidden", Effect.IDEMPOTENT
        return self._call("POST", path, nothing, effect, headers=self._run)

    @operation
    def info(self) -> Call[RunInfo]:
        """Return the steps of this run."""
        return self._get(self._path, RunInfo)

    @operation
    def end(self) -> Call[None]:
        """Clear the hidden states of this run, and free their memory."""
        return self._call("DELETE", self._path, nothing, Effect.IDEMPOTENT)

    @operation
    def fork(self, name: str) -> Call[RunSteps]:
        """Begin another run from the hidden states of this one; what it was before is cleared."""
        path, json = f"{self._path}/fork", {"run_id": text(name, "name")}
        return self._call("POST", path, reading(RunSteps), Effect.IDEMPOTENT, json=json)

    @operation
    def export(self) -> Call[bytes]:
        """Return the hidden states of this run as a safetensors file."""
        return self._call("GET", f"{self._path}/state", _read_file)

    @operation
    def restore(self, file: bytes) -> Call[RunSteps]:
        """Begin this run anew from a file that ``export`` returned, for this run or another one."""
        path = f"{self._path}/state"
        return self._call("PUT", path, reading(RunSteps), Effect.IDEMPOTENT, data=file)


class Inference(ProbedService[Mode]):
    """The calls of the inference service that concern no run."""

    @operation
    def health(self) -> Call[InferenceHealth]:
        """Return whether a policy is loaded, and its states can be reached."""
        return self._get("/health", InferenceHealth)

    @operation
    def model_info(self) -> Call[PolicyInfo]:
        """Return the policy's sizes and its junctions."""
        return self._get("/model_info", PolicyInfo)

    @operation
    def runs(self) -> Call[list[RunInfo]]:
        """Return the runs that were used last, up to 1,000, the latest first."""
        return self._call("GET", "/runs", lambda reply: reading(_Runs)(reply).runs)

    @operation
    def infer(
        self,
        observations: Rows,
        junctions: Sequence[str] | Sequence[int] | Array,
        *,
        runs: str | Sequence[str] | None = None,
        request_ids: Sequence[str] | None = None,
        sequence_start: bool = False,
        key: str | None = None,
    ) -> Call[Predictions]:
        """Make a step for each of up to 4,096 rows, which may belong to different runs.

        Rows of one junction and run are stepped in their order; a call takes 64 of them. A row
        that fails, after the client's attempts, does not affect the others. An unknown junction
        or a value that is not finite fails the whole call.

        Args:
            observations: a row for each step: an array, or sequences of numbers. Shorter rows
                are padded with zeros.
            junctions: the junction of each row, by name or by agent index.
            runs: the run of all rows, or of each one; None for the run ``default``.
            request_ids: an idempotency key for each row. By default row N has the key ``KEY.N``.
            sequence_start: whether the runs are reset before their first step.
            key: KEY of an earlier call, to get its results again.
        """
        encoded = tensors.encode(observations, junctions)
        n_rows = len(encoded.observations)
        key = checked_key(key)
        if request_ids is None:
            ids, keys = [f"{key}.{row}" for row in range(n_rows)], []
        else:
            ids, keys = list(request_ids), tensors.encode_keys(request_ids, n_rows)
        headers, each = {}, []
        if isinstance(runs, str):
            headers = run_headers(runs)
            each = [tensors.packed_run(runs)] * n_rows if sequence_start else []
        elif runs is not None:
            each = tensors.encode_runs(runs, n_rows)
        elif sequence_start:
            raise InvalidInputError("sequence_start needs runs")
        length, body = tensors.request(encoded, each, keys, sequence_start)
        call = self._call(
            "POST",
            "/v2/models/policy/infer",
            partial(tensors.read, ids),
            Effect.IDEMPOTENT,
            key=key,
            data=body,
            headers={tensors.HEADER_LENGTH: str(length), **headers},
        )
        return replace(call, is_incomplete=partial(_may_pass, encoded.junctions, each))

    def run(self, name: str | None = None) -> InferenceRun[Mode]:
        """Return the calls of the inference service for one simulation run."""
        return InferenceRun(self._perform, self._url, name, self._headers)


def _may_pass(junctions: list[bytes], runs: list[bytes], done: Predictions) -> bool:
    """Return whether steps that failed may succeed in another attempt, and in their order."""
    if not any(done.code[row] in _PASSING for row in done.failed):
        return False
    failed = set()
    for state, status in zip(
        zip(runs or repeat(b""), junctions, strict=False), done.status, strict=True
    ):
        if status != 200:
            failed.add(state)
        elif state in failed:
            return False  # a later step was made
    return True


def _observed(given: Observed | tuple[str, Sequence[float]]) -> Observed:
    if isinstance(given, tuple | list) and len(given) in (2, 3):
        return Observed(*given)
    raise InvalidInputError(f"A pair of junction and observation is asked for, not {given!r:.50}")


def _item(junction: str, observation: Sequence[float]) -> dict[str, Any]:
    values = numbers(observation, "observation")
    return {"junction_id": text(junction, "junction"), "obs_data": values}


def _read_prediction(junction: str, key: str, reply: Reply) -> Prediction:
    prediction = Prediction.model_validate_json(reply.body)
    _check_junction(junction, prediction.junction_id)
    step = reply.headers.get("x-hidden-state-step")
    return prediction.model_copy(update={"key": key, "step": None if step is None else int(step)})


def _read_items(sent: list[dict[str, Any]], reply: Reply) -> list[Prediction | FailedPrediction]:
    results = []
    answered = _Items.model_validate_json(reply.body).items
    for item, result in zip(sent, answered, strict=True):
        _check_junction(item["junction_id"], result.junction_id)
        results.append(result.model_copy(update={"key": item["request_id"]}))
    return results


def _read_file(reply: Reply) -> bytes:
    if reply.is_json:
        raise ValueError("an answer that is no file")
    return reply.body


def _check_junction(sent: str, answered: str) -> None:
    if answered != sent:
        raise ValueError("an answer for another junction")
