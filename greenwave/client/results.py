"""Results of calls, and records: frozen, and without the fields that a later server adds."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import AliasPath, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

SUCCESS = "success"


class Form(BaseModel):
    """An answer in camel case, read strictly."""

    model_config = ConfigDict(
        frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True
    )


class SnakeForm(Form):
    """An answer in snake case."""

    model_config = ConfigDict(alias_generator=None)


class SafetyStep(Form):
    """A state of the lamps, a letter for each link, and when it is to be shown."""

    after_s: float = Field(alias="afterSeconds")
    state: str


class Safety(Form):
    """The result of the gateway's safety layer; times count from the moment that was described.

    Attributes:
        asked: the action of the policy, or of the fallback.
        rule: why the action of the decision differs; ``none`` if it does not.
        show_after_s: from when on the decision's action may be green.
        steps: what to show until then, and then; empty unless a change begins.
    """

    asked: int
    rule: str
    show_after_s: float = Field(alias="showAfterSeconds")
    steps: list[SafetyStep]


class Decision(Form):
    """What the gateway decided for a junction.

    Attributes:
        action: the phase to show next.
        signal: the action in the three words of the service's document; it does not name the phase.
        timestamp: milliseconds since the Unix epoch.
        fallback_plan: the fixed-time plan that a fallback's action is from, and its period; None
            for RED, and for decisions of the policy.
        safety: the result of the safety layer; None while it is off.
        failed_detectors: by lane, why an estimate took the place of its reading, if any did.
        key: of the step, to repeat the request, as after a fallback; None for a demonstration.
    """

    junction_id: str
    action: int = Field(alias="predictedAction", ge=0)
    signal: str = Field(alias="signalState")
    timestamp: int
    status: str
    fallback_plan: str | None = None
    safety: Safety | None = None
    failed_detectors: dict[str, str] | None = None
    key: str | None = None

    @property
    def is_fallback(self) -> bool:
        """Whether the policy was unavailable: the action is a plan's, or 0."""
        return self.status != SUCCESS


class Prediction(SnakeForm):
    """What the policy chose for a junction.

    Attributes:
        confidence: the action's probability.
        step: the junction's steps since zeros; None for one of several.
        failed_detectors: by lane, why an estimate took the place of its reading, if any did.
        key: of the step, to repeat the request.
    """

    junction_id: str
    action: int = Field(ge=0)
    confidence: float = Field(ge=0, le=1)
    step: int | None = None
    failed_detectors: dict[str, str] | None = None
    key: str | None = None


class FailedPrediction(SnakeForm):
    """Why one of several predictions was not made.

    Attributes:
        status: that a request for this prediction alone would have had.
        code: for programs; after ``outcome_unknown`` the step may have been made.
        key: of the step, to repeat the request.
    """

    junction_id: str
    status: int = Field(validation_alias=AliasPath("error", "status"))
    message: str = Field(validation_alias=AliasPath("error", "detail"))
    code: str | None = Field(None, validation_alias=AliasPath("error", "code"))
    key: str = ""


@dataclass(frozen=True)
class Predictions:
    """The results of many steps, one for each row; ``numpy.asarray(each.action)`` copies nothing.

    Attributes:
        action: -1 in a row that failed; so is ``step``.
        confidence: the actions' probabilities.
        step: the junctions' steps since zeros.
        status: that a request for the row alone would have had; 200 for a step that was made.
        code: for programs, empty without one; after ``outcome_unknown`` the step may have been
            made.
        request_ids: the idempotency keys of the steps, to repeat them.
    """

    action: array[int]
    confidence: array[float]
    step: array[int]
    status: array[int]
    code: list[str]
    request_ids: list[str]

    @property
    def failed(self) -> list[int]:
        """The rows without a step."""
        return [row for row, status in enumerate(self.status) if status != 200]


class Probe(Form):
    """The state of the replica that has answered a probe.

    Attributes:
        status: ``alive`` or ``dead``; ``ready`` or ``not ready``.
        checks: by name, ``ok`` or a sentence with the problem.
    """

    status: str
    checks: dict[str, str]


class GatewayHealth(Form):
    status: Literal["healthy", "degraded"]
    inference_service: Literal["up", "down"]
    timestamp: int


class InferenceHealth(SnakeForm):
    status: str
    model_loaded: bool
    junctions: list[str]
    detail: str | None = None


class RunSteps(SnakeForm):
    """What a run goes on from.

    Attributes:
        steps: of each junction that has been stepped.
    """

    run: str
    steps: dict[str, int]


class RunInfo(RunSteps):
    """A run at the inference service."""

    idle_seconds: float


class JunctionInfo(SnakeForm):
    agent_index: int
    avail_actions: list[int]
    valid_actions: int


class PolicyInfo(SnakeForm):
    architecture: str
    input_shape: int
    hidden_dim: int
    n_actions: int
    n_agents: int
    obs_agent_id: bool
    junctions: dict[str, JunctionInfo]
    counts: str = "standing"


class DensityForecast(SnakeForm):
    """The next hour: vehicles per kilometre on each edge."""

    prediction: list[float]
    edge_ids: list[str]

    @property
    def by_edge(self) -> dict[str, float]:
        return dict(zip(self.edge_ids, self.prediction, strict=True))


class DensityHealth(SnakeForm):
    status: str
    message: str


class DensityInfo(SnakeForm):
    model_type: str
    input_shape: list[int]
    output_shape: list[int]
    description: str
    edges: list[str]
    test_loss: float | None
    test_mae: float | None


class FlowForecast(SnakeForm):
    """The next 15 minutes.

    Attributes:
        forecast_timestamp: seconds, of the end of the 15 minutes.
        predicted_flow: vehicles per minute.
        confidence: the probability that it is within its tolerance.
        timestamp: milliseconds since the Unix epoch, of the answer.
    """

    junction_id: str
    forecast_timestamp: int
    predicted_flow: int
    confidence: float = Field(ge=0, le=1)
    status: str
    timestamp: int


class FlowHealth(SnakeForm):
    status: str
    model_loaded: bool
    model_version: str
    forecast_horizon: int
    timestamp: int
    detail: str | None = None


class FlowInfo(SnakeForm):
    model_type: str
    model_version: str
    input_features: int
    input_window: int
    output_window: int
    target_accuracy: str
    trained_on_junctions: list[str]


class Shown(NamedTuple):
    """What a junction shows, for the gateway's safety layer.

    Attributes:
        phase: that is green or, during a change, about to be.
        green_s: for how long it has been green; below zero, in how long it will be.
        red_s: for each phase, for how long it has not been green.
    """

    phase: int
    green_s: float
    red_s: Sequence[float]


class Sample(NamedTuple):
    """What was measured at a junction in one minute.

    Attributes:
        timestamp: seconds since the Unix epoch.
        vehicle_count: vehicles that crossed the stop lines.
        avg_speed: km/h.
        occupancy: share of the approaches' length under vehicles, 0 to 1.
    """

    timestamp: int
    vehicle_count: int
    avg_speed: float
    occupancy: float


class Record(Form):
    """A customer record. All amounts are integers."""

    mobile_number: str


class Account(Form):
    account_number: int
    account_type: str
    branch_address: str


class Customer(Record):
    """A customer with their account."""

    name: str
    email: str
    account: Account = Field(alias="accountsDto")


class Loan(Record):
    """A customer's loan."""

    loan_number: str
    loan_type: str
    total_loan: int
    amount_paid: int
    outstanding_amount: int


class Card(Record):
    """A customer's card."""

    card_number: str
    card_type: str
    total_limit: int
    amount_used: int
    available_amount: int
