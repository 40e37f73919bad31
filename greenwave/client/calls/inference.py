"""The calls of the inference service itself: past the gateway, without its login and fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from greenwave.client.calls.probes import Probed, get
from greenwave.client.core.call import Call, Effect, Reply, nothing
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
    SnakeForm,
)


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


class _Items(SnakeForm):
    items: list[Prediction | _Refused]


_ITEMS = TypeAdapter(_Items)


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
            headers=self._headers(),
            read=nothing,
        )

    def _headers(self) -> dict[str, str]:
        return {**self.headers, **run_headers(self.name)}


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


def _check_junction(sent: str, answered: str | None) -> None:
    if answered != sent:
        raise ValueError("an answer for another junction")
