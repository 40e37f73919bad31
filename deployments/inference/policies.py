"""The policy in service, and a candidate beside it, which may change while replicas run.

Each has hidden states of its own, told apart by a name, and a stepper of its own. Which runs a
canary answers follows from their names alone, so that all replicas agree that have the same
configuration; and while one has another, each still steps the states of the policy that answers.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from deployments.inference.counts import StepCounts
from deployments.inference.options import CandidateConfig, InferenceOptions, InferenceUserConfig
from deployments.inference.shadow import Shadow
from deployments.inference.watched_steps import WatchedSteps
from deployments.model_slot import ModelSlot
from deployments.stateful.replica.shards import ShardedLeases
from deployments.stateful.replica.stepper import Stepper
from models.junctions import SHIPPED
from models.networks.network import Network
from models.policy.form import InvalidPolicyFileError
from models.policy.step import PolicyStep

_DIGEST_BYTES = 8


@lru_cache(maxsize=4096)
def place_of(run: str) -> float:
    """Return where a run stands from 0 to 1, below 1: a share has the runs below it."""
    digest = hashlib.blake2b(run.encode(), digest_size=_DIGEST_BYTES).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # as many bits as a float has


class Source(NamedTuple):
    """What a policy is read from, and the name of its hidden states."""

    path: str
    revision: int | str | None
    states: str


class Line:
    """One policy with hidden states of its own.

    Attributes:
        source: what the slot was loaded from; None before.
    """

    def __init__(
        self,
        kind: str,
        states: str,
        leases: ShardedLeases,
        options: InferenceOptions,
        network: Network,
    ) -> None:
        self.states = states
        read = partial(PolicyStep.load, network=network)
        self.slot = ModelSlot(kind, read, InvalidPolicyFileError)
        self.stepper = Stepper(leases, self.slot, options, states, network)
        self.source: Source | None = None

    async def load(self, source: Source) -> bool:
        """Have a source in the slot; return False when it is refused, and all is as before."""
        if source == self.source:
            self.slot.problem = None  # of another that was tried meanwhile
            return True
        await self.slot.load(source.path)
        if self.slot.problem is None:
            self.source = source
        return self.slot.problem is None


class Part(NamedTuple):
    """What a policy is here, for the metrics: ``primary`` or ``candidate``, and its states."""

    policy: str
    states: str


class Candidate(NamedTuple):
    """What is tried, and how."""

    line: Line
    config: CandidateConfig

    def answers(self, run: str) -> bool:
        return self.config.mode == "canary" and self.concerns(run)

    def concerns(self, run: str) -> bool:
        return place_of(run) < self.config.share


class Policies:
    """Decides which policy steps a run.

    Attributes:
        primary: the policy in service.
        candidate: the one beside it.
        counts: of each policy in each part that it has had.
        outcomes: of the steps of shadows, by the name of their states.
        watched_steps: of all that answer.
    """

    def __init__(
        self, leases: ShardedLeases, options: InferenceOptions, network: Network = SHIPPED
    ) -> None:
        self.counts: defaultdict[Part, StepCounts] = defaultdict(StepCounts)
        self.outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.watched_steps = WatchedSteps(network)
        self._leases = leases
        self._options = options
        self._network = network
        self._path = ""
        self._lines: dict[str, Line] = {}
        self._candidate_problem: str | None = None
        self._shadow: Shadow | None = None
        self._changing = asyncio.Lock()
        self.candidate: Candidate | None = None
        self.primary = self._new_line("policy", "")
        self._serve(self.primary, None)

    async def start(self, path: str) -> None:
        """Read a first policy, which stays until a configuration names another."""
        self._path = path
        await self.primary.load(Source(path, None, ""))

    @property
    def loaded(self) -> bool:
        """Whether there is a policy that answers."""
        return self.primary.slot.model is not None

    @property
    def problem(self) -> str | None:
        """Why a file that is configured is not served, None if all are."""
        return self.primary.slot.problem or self._candidate_problem

    @property
    def files(self) -> dict[str, str]:
        """The file of each policy that answers, by the name of its hidden states."""
        sources = [line.source for line in self._lines.values()]
        return {source.states: source.path for source in sources if source is not None}

    @property
    def lacks_places(self) -> bool:
        return any(line.stepper.lacks_places for line in self._lines.values())

    def stepper_of(self, run: str) -> Stepper:
        """Return what answers a run."""
        candidate = self.candidate
        if candidate is not None and candidate.answers(run):
            return candidate.line.stepper
        return self.primary.stepper

    async def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Serve what is configured; a file that is refused leaves its policy as it is.

        Raises:
            ValidationError: an unknown key, or a value of a wrong type.
        """
        wanted = InferenceUserConfig.model_validate(user_config)
        source = Source(wanted.path or self._path, wanted.revision, wanted.states)
        async with self._changing:
            primary = self._lines.get(source.states) or self._new_line("policy", source.states)
            if not await primary.load(source):
                self.primary.slot.problem = primary.slot.problem
                return
            candidate = await self._load_candidate(wanted.candidate)
            if candidate is not None and candidate.line is primary:
                candidate = None  # it was promoted, and the one to come after it refused
            self._serve(primary, candidate)

    def _new_line(self, kind: str, states: str) -> Line:
        line = Line(kind, states, self._leases, self._options, self._network)
        line.stepper.watched_steps = self.watched_steps
        return line

    async def _load_candidate(self, wanted: CandidateConfig | None) -> Candidate | None:
        """Return the candidate that is configured; the one before, when its file is refused."""
        self._candidate_problem = None
        if wanted is None:
            return None
        source = Source(wanted.path or "", wanted.revision, wanted.states)
        line = self._lines.get(source.states) or self._new_line("candidate", source.states)
        if line.source not in (None, source):
            problem = "its hidden states have the name of those of another policy"
            self._candidate_problem = f"{source.path}: {problem}"
        elif not await line.load(source):
            self._candidate_problem = line.slot.problem
        else:
            return Candidate(line, wanted)
        return self.candidate

    def _serve(self, primary: Line, candidate: Candidate | None) -> None:
        """Let these answer from now on; what was queued before is still stepped by its policy."""
        self.primary, self.candidate = primary, candidate
        served = [primary] if candidate is None else [primary, candidate.line]
        busy = [line for line in self._lines.values() if not line.stepper.idle]
        self._lines = {line.states: line for line in (*busy, *served)}
        for line in self._lines.values():
            line.stepper.shadow = None
        primary.stepper.counts = self.counts[Part("primary", primary.states)]
        primary.stepper.fallback = None
        self._shadow = self._shadow_of(candidate)
        if candidate is not None:
            candidate.line.stepper.counts = self.counts[Part("candidate", candidate.line.states)]
            candidate.line.stepper.fallback = primary.stepper
            primary.stepper.shadow = self._shadow

    def _shadow_of(self, candidate: Candidate | None) -> Shadow | None:
        """Return the shadow that there is, if it is still the candidate's, with its states."""
        if candidate is None or candidate.config.mode != "shadow":
            return None
        line, shadow = candidate.line, self._shadow
        if shadow is None or shadow.source is not line.slot:
            counts = self.counts[Part("candidate", line.states)]
            shadow = Shadow(line.slot, counts, self.outcomes[line.states], self._network)
        shadow.concerns = candidate.concerns
        return shadow

    async def close(self) -> None:
        for line in self._lines.values():
            await line.stepper.close()
