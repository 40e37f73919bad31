"""The inference service without HTTP and without Ray: what each route does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from starlette.types import Scope

from deployments.feed.messages import Contents, Demand
from deployments.http.messages import (
    DEFAULT_RUN,
    NOT_A_KEY,
    NOT_A_RUN_ID,
    RAW_KEY_HEADER,
    RAW_RUN_HEADER,
    RUN_HEADER,
    is_misnamed,
    is_name,
    not_read,
)
from deployments.http.probes import Check
from deployments.http.request import header, query_of
from deployments.inference.errors import (
    InferenceError,
    model_not_loaded,
    or_refusal,
    refusal_of,
    unknown_junction,
)
from deployments.inference.policies import Policies
from deployments.inference.policy_model import fingerprint_of, state_width
from deployments.inference.schemas import Health, JunctionInfo, ModelInfo
from deployments.request_times import RouteTimes
from deployments.stateful.calls import Keys, Outcomes, RowOutcomes, Rows, StepResult
from deployments.stateful.engine import Engine
from deployments.stateful.row import Key
from models.networks.network import Junction, Network
from models.networks.shipped import SHIPPED
from models.policy.form import HIDDEN_DIM, PolicyForm
from models.signals.diagnosis import JunctionDiagnosis

_MAX_KEPT_ROWS = 1 << 16

Result = StepResult | InferenceError
"""The outcome of one step: its output is as in :class:`.policy_model.Decisions`."""


class KeyCache:
    """The keys of calls, as most clients step the same states in all of theirs.

    An entry keeps its states in memory, so the rows of all are bounded.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[tuple[str, ...], tuple[str, ...]], Keys] = {}  # latest last
        self._n_rows = 0

    def keys_of(self, runs: tuple[str, ...], junctions: tuple[str, ...]) -> Keys:
        """Return the keys of B steps."""
        kept, names = self._kept, (runs, junctions)
        keys = kept.pop(names, None)
        if keys is None:
            keys = Keys(map(Key, runs, junctions))
            self._n_rows += len(keys)
            while kept and self._n_rows > _MAX_KEPT_ROWS:
                self._n_rows -= len(kept.pop(next(iter(kept))))
        kept[names] = keys
        return keys


keys_of = KeyCache().keys_of


Predictions = Outcomes[InferenceError]
"""The outcomes of several steps; outputs are as in :class:`.policy_model.Decisions`."""


def run_of(header: str | None, body: str | None) -> str:
    """Return the run that a request names in its header or body, or the default one.

    Raises:
        InferenceError: not a run id, or two different ones.
    """
    if header is None and body is None:
        return DEFAULT_RUN
    if header is not None and body is not None and header != body:
        raise InferenceError(400, f"{RUN_HEADER} and run_id name different runs")
    run = header if header is not None else body
    if run is None or not is_name(run):
        raise InferenceError(400, NOT_A_RUN_ID)
    return run


def request_id_of(text: str | None) -> str | None:
    """Return the idempotency key of a request, if it has one.

    Raises:
        InferenceError: not a valid key.
    """
    if text is not None and not is_name(text):
        raise InferenceError(400, NOT_A_KEY)
    return text


def names_of(scope: Scope, body: str | None = None) -> tuple[str, str | None]:
    """Return the run and the idempotency key that a request names; its body may name the run.

    Raises:
        InferenceError: one is invalid, or in the query.
    """
    for name in filter(is_misnamed, dict(query_of(scope))):
        raise InferenceError(422, not_read(name))
    run = run_of(header(scope, RAW_RUN_HEADER), body)
    return run, request_id_of(header(scope, RAW_KEY_HEADER))


class InferenceService:
    """Validates requests, steps the policy, and reports its state.

    Args:
        diagnoses: of the junctions' detectors, by agent index; None if they are not diagnosed.

    Attributes:
        diagnoses_detectors: whether they are diagnosed.
        state_width: numbers in the state of a junction.
    """

    def __init__(
        self,
        engine: Engine,
        network: Network = SHIPPED,
        diagnoses: Sequence[JunctionDiagnosis] | None = None,
    ) -> None:
        self.network = network
        self.engine = engine
        self.policies = Policies(engine, network, diagnoses)
        self.diagnoses_detectors = diagnoses is not None
        self.state_width = state_width(diagnoses)
        self._junctions = network.junctions
        self._max_obs = network.max_obs

    def predict(
        self, run: str, junction_id: str, obs: list[float], request_id: str | None = None
    ) -> asyncio.Future[StepResult]:
        """Queue one step of one junction.

        Args:
            request_id: idempotency key. If it belongs to an earlier step, its result is returned,
                and no step is made.

        Raises:
            InferenceError: at once, nothing queued.

        Returns:
            A future whose output is (action, confidence); fails with a StateError.
        """
        junction = self.checked(junction_id, obs)
        if not self.policies.loaded:
            raise model_not_loaded()
        return self.policies.variant_of(run).batcher.submit(
            Key(run, junction_id),
            (junction.agent_index, obs),
            request_id,
            fingerprint_of(obs) if request_id is not None else 0,
        )

    def checked(self, junction_id: str, obs: list[float]) -> Junction:
        """Return the junction of a step.

        Raises:
            InferenceError: it is unknown, or there are too many values.
        """
        junction = self._junctions.get(junction_id)
        if junction is None:
            raise unknown_junction(junction_id, self.network)
        if len(obs) > self._max_obs:
            raise InferenceError(
                400, f"obs_data has {len(obs)} values, expected <= {self._max_obs}"
            )
        return junction

    async def predict_many(
        self, rows: Rows, known: Mapping[int, StepResult | Exception] | None = None
    ) -> Predictions:
        """Make several steps, those of one state in their order.

        Args:
            rows: whose inputs are :class:`.policy_model.ObservedRows` of finite values.
            known: outcomes of rows that are not stepped.
        """
        n_rows = len(rows.keys)
        if not self.policies.loaded:
            failed: dict[int, InferenceError] = dict.fromkeys(range(n_rows), model_not_loaded())
            return Outcomes([None] * n_rows, [0] * n_rows, failed)
        outcomes = RowOutcomes(n_rows)
        for row, outcome in (known or {}).items():
            if isinstance(outcome, Exception):
                outcomes.fail([row], outcome)
            else:
                outcomes.set([row], [outcome.output], [outcome.step])
        rest = [row for row in range(n_rows) if row not in known] if known else range(n_rows)
        for batcher, numbers in self.policies.batchers_of(rows.keys, rest):
            batcher.submit_rows(rows, numbers, outcomes)
        try:
            results = await outcomes.all()
        except BaseException:
            outcomes.cancel()
            raise
        errors = {row: refusal_of(error) for row, error in results.errors.items()}
        return Outcomes(results.outputs, results.steps, errors)

    async def reset(self, run: str, request_id: str | None = None) -> None:
        """Clear the hidden states of a run.

        Args:
            request_id: idempotency key; a reset that was made with it is not made again.

        Raises:
            InferenceError: they are as they were, unless its code is ``outcome_unknown``.
        """
        await or_refusal(self.engine.reset(run, request_id))

    def health(self) -> Health:
        loaded, ids, detail = self.policies.loaded, list(self.network.ids), self.policies.problem
        if not loaded:
            return Health(status="no_model", model_loaded=False, junctions=ids, detail=detail)
        if not self.engine.connected:
            detail = "the hidden states cannot be reached"
        elif self.policies.at_capacity:
            detail = "the limit on hidden states (max_states) is reached"
        else:
            return Health(status="healthy", model_loaded=True, junctions=ids, detail=detail)
        return Health(status="unhealthy", model_loaded=True, junctions=ids, detail=detail)

    def checks(self) -> dict[str, Check]:
        """Return what a replica needs to be ready, by name."""
        return {
            "model": Check(lambda: self.policies.loaded, "No policy is loaded; /health says why."),
            "hidden_states": Check(
                lambda: self.engine.connected, "The hidden states cannot be reached."
            ),
        }

    def model_info(self) -> ModelInfo:
        network, model = self.network, self.policies.primary.slot.model
        form = PolicyForm.of(network) if model is None else model.policy.form
        return ModelInfo(
            input_shape=form.input_dim,
            hidden_dim=HIDDEN_DIM,
            n_actions=form.n_actions,
            n_agents=form.n_agents,
            obs_agent_id=form.agent_id,
            counts="standing" if model is None else model.counts,
            junctions={
                junction.id: JunctionInfo(
                    agent_index=junction.agent_index,
                    avail_actions=list(network.avail_actions(junction.id)),
                    valid_actions=junction.n_phases,
                )
                for junction in network.junctions.values()
            },
        )

    async def close(self) -> None:
        await self.policies.close()
        await self.engine.close()


class InferenceReporter:
    """Reports steps to the console; implements :class:`~deployments.feed.publisher.Reporter`."""

    def __init__(self, service: InferenceService, times: RouteTimes) -> None:
        self._policies = service.policies
        self._times = times

    def on_demand_changed(self, demand: Demand) -> None:
        self._policies.watched_steps.on_demand_changed(demand)

    def take(self) -> Contents:
        policies = self._policies
        decisions, runs = policies.watched_steps.take(policies.files)
        steps = sum(counts.predictions.total() for counts in policies.counts.values())
        return Contents(steps, latencies=self._times.totals(), runs=runs, decisions=decisions)
