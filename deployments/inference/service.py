"""The inference service without HTTP and without Ray: what each route does."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from deployments.http.names import DEFAULT_RUN, NOT_A_RUN_ID, RUN_HEADER, is_name
from deployments.http.probes import Check
from deployments.inference.errors import (
    InferenceError,
    InvalidKeyError,
    InvalidRunError,
    ModelNotLoadedError,
    TooManyValuesError,
    UnknownJunctionError,
    refusal_of,
)
from deployments.inference.options import InferenceOptions
from deployments.inference.policies import Policies
from deployments.inference.schemas import Health, JunctionInfo, ModelInfo
from deployments.stateful.protocol import HiddenStateError, Key, OutcomeUnknownError
from deployments.stateful.replica.shards import ShardedLeases
from deployments.stateful.replica.stepper import Decision as Decision  # part of this face
from models.junctions import SHIPPED
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM, PolicyForm

_RESET_TIMEOUT_S = 10.0

Submitted = asyncio.Future[Decision] | InferenceError
"""A step that is queued, or why it is not."""


def run_of(header: str | None, body: str | None) -> str:
    """Return the run that a request names in its header, its body, both alike, or not at all.

    Raises:
        InvalidRunError: not a run id, or two different ones.
    """
    if header is None and body is None:
        return DEFAULT_RUN
    if header is not None and body is not None and header != body:
        raise InvalidRunError(f"{RUN_HEADER} and run_id name different runs")
    run = header if header is not None else body
    if run is None or not is_name(run):
        raise InvalidRunError(NOT_A_RUN_ID)
    return run


def request_id_of(text: str | None) -> str | None:
    """Return the idempotency key of a request, if it has one.

    Raises:
        InvalidKeyError: it is none.
    """
    if text is not None and not is_name(text):
        raise InvalidKeyError()
    return text


async def outcomes_of(submitted: Sequence[Submitted]) -> list[Decision | InferenceError]:
    """Wait for the steps that one call asks for, each with an outcome of its own.

    Raises:
        asyncio.CancelledError: the caller has given up; what is not stepped yet never will be.
    """
    try:
        return [await _outcome(step) for step in submitted]
    except BaseException:
        for step in submitted:
            if isinstance(step, asyncio.Future):
                step.cancel()
        raise


async def _outcome(step: Submitted) -> Decision | InferenceError:
    if isinstance(step, InferenceError):
        return step
    try:
        return await step
    except Exception as error:  # a defect must not hide what has become of the other steps
        return refusal_of(error)


class InferenceService:
    """Validates, steps, and tells about itself."""

    def __init__(
        self, leases: ShardedLeases, options: InferenceOptions, network: Network = SHIPPED
    ) -> None:
        self.network = network
        self.policies = Policies(leases, options, network)
        self.leases = leases
        self._junctions = network.junctions
        self._max_obs = network.max_obs
        self._options = options

    def predict(
        self,
        run: str,
        junction_id: str,
        obs: list[float],
        *,
        request_id: str | None = None,
        shared: bool = False,
    ) -> asyncio.Future[Decision]:
        """Queue one step of one junction.

        Args:
            request_id: idempotency key; if it is that of an earlier step, its decision is the
                answer, and no step is made.
            shared: its answer travels with others, which must not wait long for it.

        Raises:
            UnknownJunctionError, TooManyValuesError, ModelNotLoadedError: at once, nothing queued.

        Returns:
            A future of the decision, which fails with a HiddenStateError.
        """
        if junction_id not in self._junctions:
            raise UnknownJunctionError(junction_id, self.network)
        if len(obs) > self._max_obs:
            raise TooManyValuesError(len(obs), self.network)
        if not self.policies.loaded:
            raise ModelNotLoadedError()
        patience_s = self._options.shared_patience_s if shared else math.inf
        stepper = self.policies.stepper_of(run)
        return stepper.submit(Key(run, junction_id), obs, patience_s, request_id)

    async def reset(self, run: str) -> None:
        """Clear the hidden states of a run.

        Raises:
            UnconfirmedError: they may be cleared, as a whole or in part, or not.
        """
        try:
            async with asyncio.timeout(_RESET_TIMEOUT_S):
                await self.leases.reset(run)
        except (HiddenStateError, TimeoutError) as error:
            raise refusal_of(OutcomeUnknownError()) from error

    def health(self) -> Health:
        if not self.policies.loaded:
            return self._health("no_model", self.policies.problem)
        if not self.leases.connected:
            return self._health("unhealthy", "the state actor does not answer")
        if self.policies.lacks_places:
            return self._health("unhealthy", "as many hidden states are kept as may be")
        return self._health("healthy", self.policies.problem)

    def _health(self, status: str, detail: str | None) -> Health:
        return Health.model_validate(
            {
                "status": status,
                "model_loaded": self.policies.loaded,
                "junctions": list(self.network.ids),
                "detail": detail,
            }
        )

    def checks(self) -> dict[str, Check]:
        """Return what a replica needs for a step, by name."""
        return {
            "model": Check(lambda: self.policies.loaded, "No policy is loaded; /health says why."),
            "hidden_states": Check(lambda: self.leases.connected, "A state actor does not answer."),
        }

    def model_info(self) -> ModelInfo:
        network, policy = self.network, self.policies.primary.slot.model
        form = PolicyForm.of(network) if policy is None else policy.form
        return ModelInfo(
            input_shape=form.input_dim,
            hidden_dim=HIDDEN_DIM,
            n_actions=form.n_actions,
            n_agents=form.n_agents,
            obs_agent_id=form.agent_id,
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
        await self.leases.close()
