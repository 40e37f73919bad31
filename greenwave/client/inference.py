"""The calls of the inference service itself: past the gateway, without its login and fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from greenwave.client import tensors
from greenwave.client.call import Call, Effect, Reply, nothing
from greenwave.client.errors import InvalidInputError
from greenwave.client.inputs import (
    JSON,
    checked_items,
    checked_key,
    checked_observation,
    json_bytes,
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
from greenwave.client.service import Probed, get
from greenwave.client.tensors import Array, Encoded, Rows


class Observed(NamedTuple):
    """One of several observations.

    Attributes:
        key: of an earlier step, to get its prediction again.
    """

    junction: str
    observation: Sequence[float]
    key: str | None = None


class _Refusal(SnakeForm):
    status: int
    detail: str
    code: str | None = None


class _Refused(SnakeForm):
    junction_id: str | None
    error: _Refusal


class _Runs(SnakeForm):
    runs: list[RunInfo]


class _Items(SnakeForm):
    items: list[Prediction | _Refused]


_ITEMS = TypeAdapter(_Items)
_PASSING = ("overloaded", "outcome_unknown")


@dataclass(frozen=True, slots=True)
class InferenceCalls(Probed):
    """The calls of the inference service that concern no run.

    Attributes:
        headers: of each request but the probes.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return self.url

    def health(self) -> Call[InferenceHealth]:
        """Return whether a policy is loaded, and its states can be reached."""
        return get(f"{self.url}/health", InferenceHealth, self.headers)

    def model_info(self) -> Call[PolicyInfo]:
        """Return the policy's sizes and its junctions."""
        return get(f"{self.url}/model_info", PolicyInfo, self.headers)

    def runs(self) -> Call[list[RunInfo]]:
        """Return the runs that were used last, up to 1,000, the latest first."""
        return Call(
            method="GET",
            url=f"{self.url}/runs",
            effect=Effect.NONE,
            headers=self.headers,
            read=lambda reply: _Runs.model_validate_json(reply.body).runs,
        )

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
            request_ids = [f"{key}.{row}" for row in range(n_rows)]
            keys = []
        else:
            keys = tensors.encode_keys(request_ids, n_rows)
        headers, each = {}, []
        if isinstance(runs, str):
            headers = run_headers(runs)
            each = [tensors.packed_run(runs)] * n_rows if sequence_start else []
        elif runs is not None:
            each = tensors.encode_runs(runs, n_rows)
        elif sequence_start:
            raise InvalidInputError("sequence_start needs runs")
        return self.step(encoded, each, keys, list(request_ids), sequence_start, key, headers)

    def step(
        self,
        encoded: Encoded,
        runs: list[bytes],
        keys: list[bytes],
        request_ids: list[str],
        sequence_start: bool = False,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Call[Predictions]:
        """Make steps whose rows are encoded.

        Args:
            runs, keys: empty to send none.
            request_ids: of the results.
        """
        key = checked_key(key)
        length, body = tensors.request(encoded, runs, keys, sequence_start)
        return Call(
            method="POST",
            url=f"{self.url}/v2/models/policy/infer",
            effect=Effect.IDEMPOTENT,
            headers={
                "content-type": "application/octet-stream",
                tensors.HEADER_LENGTH: str(length),
                "idempotency-key": key,
                **self.headers,
                **(headers or {}),
            },
            body=body,
            read=partial(tensors.read, request_ids),
            key=key,
            is_incomplete=partial(_may_pass, encoded.junctions, runs),
        )


@dataclass(frozen=True, slots=True)
class InferenceRunCalls:
    """Predictions for the junctions of one simulation run.

    Args:
        name: 1 to 64 of ``A-Z a-z 0-9 . _ : -``; None for the run ``default``.
        headers: of each request.
    """

    url: str
    name: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        run_headers(self.name)

    def predict(
        self, junction: str, observation: Sequence[float], *, key: str | None = None
    ) -> Call[Prediction]:
        """Make one step of a junction's memory, and return the action that the policy chose.

        Args:
            observation: at most 19 numbers of the shipped network.
            key: of an earlier step, to get its prediction again.
        """
        key = checked_key(key)
        headers = {**JSON, **self._headers(), "idempotency-key": key}
        return Call(
            method="POST",
            url=f"{self.url}/predict_action",
            effect=Effect.IDEMPOTENT,
            headers=headers,
            body=json_bytes(_item(junction, observation)),
            read=partial(_read_prediction, junction, key),
            key=key,
        )

    def predict_many(
        self, observed: Iterable[Observed | tuple[str, Sequence[float]]]
    ) -> Call[list[Prediction | FailedPrediction]]:
        """Make a step for each of up to 1,000 observations, and return the results in their order.

        One that fails does not concern the others.
        """
        items = [
            {**_item(each.junction, each.observation), "request_id": checked_key(each.key)}
            for each in map(_observed, checked_items(observed))
        ]
        sent = [(item["junction_id"], item["request_id"]) for item in items]
        return Call(
            method="POST",
            url=f"{self.url}/predict_actions",
            effect=Effect.IDEMPOTENT,
            headers={**JSON, **self._headers(), "idempotency-key": checked_key(None)},
            body=json_bytes({"items": items}),
            read=partial(_read_items, sent),
        )

    def reset(self) -> Call[None]:
        """Clear the hidden states of this run."""
        return Call(
            method="POST",
            url=f"{self.url}/reset_hidden",
            effect=Effect.IDEMPOTENT,
            headers={**self._headers(), **_new_key()},
            read=nothing,
        )

    def info(self) -> Call[RunInfo]:
        """Return the steps of this run."""
        return get(self._url, RunInfo, self.headers)

    def end(self) -> Call[None]:
        """Clear the hidden states of this run, and free their memory."""
        return Call(
            method="DELETE",
            url=self._url,
            effect=Effect.IDEMPOTENT,
            headers={**self.headers, **_new_key()},
            read=nothing,
        )

    def fork(self, name: str) -> Call[RunSteps]:
        """Begin another run from the hidden states of this one; what it was before is cleared."""
        return Call(
            method="POST",
            url=f"{self._url}/fork",
            effect=Effect.IDEMPOTENT,
            headers={**JSON, **self.headers, **_new_key()},
            body=json_bytes({"run_id": text(name, "name")}),
            read=_read_steps,
        )

    def export(self) -> Call[bytes]:
        """Return the hidden states of this run as a safetensors file."""
        return Call(
            method="GET",
            url=f"{self._url}/state",
            effect=Effect.NONE,
            headers=self.headers,
            read=_read_file,
        )

    def restore(self, file: bytes) -> Call[RunSteps]:
        """Begin this run anew from a file that ``export`` returned, for this run or another one."""
        return Call(
            method="PUT",
            url=f"{self._url}/state",
            effect=Effect.IDEMPOTENT,
            headers={"content-type": "application/octet-stream", **self.headers, **_new_key()},
            body=file,
            read=_read_steps,
        )

    @property
    def _url(self) -> str:
        return f"{self.url}/runs/{self.name or 'default'}"

    def _headers(self) -> dict[str, str]:
        return {**self.headers, **run_headers(self.name)}


def _new_key() -> dict[str, str]:
    """Return the header by which all attempts at a change of a run are one."""
    return {"idempotency-key": checked_key(None)}


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
    return {
        "junction_id": text(junction, "junction"),
        "obs_data": checked_observation(observation),
    }


def _read_prediction(junction: str, key: str, reply: Reply) -> Prediction:
    prediction = Prediction.model_validate_json(reply.body)
    _check_junction(junction, prediction.junction_id)
    step = reply.headers.get("x-hidden-state-step")
    return prediction.model_copy(update={"key": key, "step": None if step is None else int(step)})


def _read_items(sent: list[tuple[str, str]], reply: Reply) -> list[Prediction | FailedPrediction]:
    items = _ITEMS.validate_json(reply.body).items
    return [_result(item, *each) for item, each in zip(items, sent, strict=True)]


def _result(item: Prediction | _Refused, junction: str, key: str) -> Prediction | FailedPrediction:
    _check_junction(junction, item.junction_id)
    if isinstance(item, Prediction):
        return item.model_copy(update={"key": key})
    error = item.error
    return FailedPrediction(
        junction_id=junction,
        status=error.status,
        message=error.detail,
        code=error.code,
        key=key,
    )


def _read_steps(reply: Reply) -> RunSteps:
    return RunSteps.model_validate_json(reply.body)


def _read_file(reply: Reply) -> bytes:
    if reply.is_json:
        raise ValueError("an answer that is no file")
    return reply.body


def _check_junction(sent: str, answered: str | None) -> None:
    if answered != sent:
        raise ValueError("an answer for another junction")
