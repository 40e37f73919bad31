"""The policy in service, and a canary beside it, which may change while replicas run.

Each has its own namespace of hidden states and its own batcher. A digest of the run
decides whether a canary answers it, so that all replicas with the same configuration agree. While
replicas have different configurations, each steps the states of the policy that answers.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from deployments.inference.options import CanaryConfig, InferenceUserConfig
from deployments.inference.policy_model import PolicyModel
from deployments.inference.shadow import Shadow
from deployments.inference.telemetry import StepCounts, WatchedSteps
from deployments.metrics.sampled import junction_labels
from deployments.model_slot import ModelSlot
from deployments.stateful.batcher import Batcher
from deployments.stateful.engine import Engine
from deployments.stateful.row import Key
from deployments.stateful.turn import SteppedBatch
from models.networks.network import Network
from models.policy.form import InvalidPolicyFileError
from models.signals.diagnosis import JunctionDiagnosis

_DIGEST_BYTES = 8


@lru_cache(maxsize=4096)
def bucket_of(run: str) -> float:
    """Return a number from 0 to 1 (exclusive) for a run: a share has the runs below it."""
    digest = hashlib.blake2b(run.encode(), digest_size=_DIGEST_BYTES).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # as many bits as a float has


class Source(NamedTuple):
    """The file of a policy, and the namespace of its hidden states."""

    path: str
    revision: int | str | None
    states: str


class Role(NamedTuple):
    """A policy's role for the metrics: ``primary`` or ``candidate``, and its states."""

    policy: str
    states: str


class Variant:
    """One policy with its own hidden states.

    Attributes:
        states: the namespace.
        source: of the policy in the slot; None before one is loaded.
        shadow: another policy that steps beside this one.
    """

    def __init__(
        self,
        kind: str,
        states: str,
        engine: Engine,
        network: Network,
        watched_steps: WatchedSteps,
        diagnoses: Sequence[JunctionDiagnosis] | None,
    ) -> None:
        self.states = states
        self.source: Source | None = None
        self.shadow: Shadow | None = None
        self.counts = StepCounts()
        self.slot = ModelSlot(
            kind,
            partial(PolicyModel.load, network=network, diagnoses=diagnoses),
            InvalidPolicyFileError,
        )
        self.batcher = engine.batcher(lambda: self.slot.model, states, step_span="GRU step")
        self.batcher.on_step = self._on_step
        self._labels = junction_labels(network)
        self._watched_steps = watched_steps

    def count_with(self, counts: StepCounts) -> None:
        """Add to these counts from now on."""
        self.counts = self.batcher.counts = counts

    async def load(self, source: Source) -> bool:
        """Load a source into the slot; return False if it is refused, and nothing changes."""
        if source == self.source:
            self.slot.problem = None  # of another one that was tried meanwhile
            return True
        await self.slot.load(source.path)
        if self.slot.problem is None:
            self.source = source
        return self.slot.problem is None

    def _on_step(self, batch: SteppedBatch) -> None:
        self.counts.add(batch, self._labels)
        if self.shadow is not None:
            self.shadow.follow(batch)
        if self._watched_steps.watched:
            self._watched_steps.add(batch, self.states)


class Canary(NamedTuple):
    """The policy that is tried, and how."""

    variant: Variant
    config: CanaryConfig

    def answers(self, run: str) -> bool:
        return self.config.mode == "canary" and self.includes(run)

    def includes(self, run: str) -> bool:
        return bucket_of(run) < self.config.share


class Policies:
    """Decides which policy steps a run.

    Args:
        diagnoses: of the junctions' detectors, by agent index; None if they are not diagnosed.

    Attributes:
        primary: the policy in service.
        canary: the one beside it.
        counts: of each policy in each role that it has had.
        shadow_outcomes: of the steps of shadows, by the name of their states.
        watched_steps: of all policies that answer.
    """

    def __init__(
        self, engine: Engine, network: Network, diagnoses: Sequence[JunctionDiagnosis] | None
    ) -> None:
        self.counts: defaultdict[Role, StepCounts] = defaultdict(StepCounts)
        self.shadow_outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.watched_steps = WatchedSteps(network)
        self._engine = engine
        self._network = network
        self._diagnoses = diagnoses
        self._default_path = ""
        self._variants: dict[str, Variant] = {}
        self._canary_problem: str | None = None
        self._shadow: Shadow | None = None
        self._changing = asyncio.Lock()
        self.canary: Canary | None = None
        self.primary = self._new_variant("policy", "")
        self._serve(self.primary, None)

    async def start(self, path: str) -> None:
        """Load a first policy, which stays until a configuration names another."""
        self._default_path = path
        await self.primary.load(Source(path, None, ""))

    @property
    def loaded(self) -> bool:
        """Whether there is a policy that answers."""
        return self.primary.slot.model is not None

    @property
    def problem(self) -> str | None:
        """Why a configured file is not served; None if all are."""
        return self.primary.slot.problem or self._canary_problem

    @property
    def files(self) -> dict[str, str]:
        """The file of each policy that answers, by the name of its hidden states."""
        sources = [variant.source for variant in self._variants.values()]
        return {source.states: source.path for source in sources if source is not None}

    @property
    def at_capacity(self) -> bool:
        return any(variant.batcher.at_capacity for variant in self._variants.values())

    def variant_of(self, run: str) -> Variant:
        """Return the policy that answers a run."""
        canary = self.canary
        return canary.variant if canary is not None and canary.answers(run) else self.primary

    def batchers_of(
        self, keys: Sequence[Key], rows: Sequence[int]
    ) -> Iterable[tuple[Batcher, Sequence[int]]]:
        """Divide rows among the batchers of the policies that answer the runs of their keys."""
        if self.canary is None:
            return [(self.primary.batcher, rows)]
        divided: defaultdict[Batcher, list[int]] = defaultdict(list)
        for row in rows:
            divided[self.variant_of(keys[row].run).batcher].append(row)
        return divided.items()

    async def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Serve what is configured; a file that is refused leaves its policy as it is.

        Raises:
            ValidationError: an unknown key, or a value of a wrong type.
        """
        wanted = InferenceUserConfig.model_validate(user_config)
        source = Source(wanted.path or self._default_path, wanted.revision, wanted.states)
        async with self._changing:
            primary = self._variants.get(source.states) or self._new_variant(
                "policy", source.states
            )
            if not await primary.load(source):
                self.primary.slot.problem = primary.slot.problem
                return
            canary = await self._load_canary(wanted.canary)
            if canary is not None and canary.variant is primary:
                canary = None  # it was promoted, and the next one was refused
            self._serve(primary, canary)

    def _new_variant(self, kind: str, states: str) -> Variant:
        return Variant(
            kind, states, self._engine, self._network, self.watched_steps, self._diagnoses
        )

    async def _load_canary(self, wanted: CanaryConfig | None) -> Canary | None:
        """Return the configured canary; the earlier one if its file is refused."""
        self._canary_problem = None
        if wanted is None:
            return None
        source = Source(wanted.path, wanted.revision, wanted.states)
        variant = self._variants.get(source.states) or self._new_variant("canary", source.states)
        if variant.source not in (None, source):
            problem = "the name of its hidden states belongs to another policy"
            self._canary_problem = f"{source.path}: {problem}"
        elif not await variant.load(source):
            self._canary_problem = variant.slot.problem
        else:
            return Canary(variant, wanted)
        return self.canary

    def _serve(self, primary: Variant, canary: Canary | None) -> None:
        """Let these answer from now on; queued requests stay with their batcher."""
        self.primary.shadow = None
        self.primary, self.canary = primary, canary
        served = [primary] if canary is None else [primary, canary.variant]
        self._variants = {each.states: each for each in served}
        primary.count_with(self.counts[Role("primary", primary.states)])
        self._shadow = self._shadow_of(canary)
        if canary is not None:
            variant = canary.variant
            variant.count_with(self.counts[Role("candidate", variant.states)])
            primary.shadow = self._shadow

    def _shadow_of(self, canary: Canary | None) -> Shadow | None:
        """Return the canary's shadow; the present one, with its states, if it is the same."""
        if canary is None or canary.config.mode != "shadow":
            return None
        variant, shadow = canary.variant, self._shadow
        if shadow is None or shadow.slot is not variant.slot:
            counts = self.counts[Role("candidate", variant.states)]
            shadow = Shadow(variant.slot, counts, self.shadow_outcomes[variant.states])
        shadow.includes = canary.includes
        return shadow

    async def close(self) -> None:
        for variant in self._variants.values():
            await variant.batcher.close()
