"""The service's counts as Ray metrics.

Ray's exporter offers them as ``ray_serve_…`` or ``ray_inference_…`` on every node's metrics port.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import numpy as np
from ray.serve import metrics

from deployments.inference.counts import Batch, StepCounts
from deployments.inference.policies import Part
from deployments.inference.service import InferenceService
from deployments.metrics.total import Total
from models.policy.inputs import InputLayout

_PART = Part._fields
_COUNTER_HELP = {
    "checkouts": "Hidden states that a replica has become the owner of",
    "recalls": "Hidden states given back because another replica asked",
    "commits": "Messages that carried stepped states to the authority",
    "states_committed": "Hidden states committed",
    "states_refused": "Hidden states whose commit was refused: another replica owned them",
    "sessions": "Sessions opened with the authority; more than one per replica tells of restarts",
}


class InferenceMetrics:
    """Ray metrics of one replica; to be created in the replica's constructor."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        self._inputs = InputLayout(service.network)
        self._predictions = Total(
            "inference_predictions", "Predictions made", (*_PART, "junction", "action")
        )
        self._step_ms = metrics.Histogram(
            "inference_step_ms",
            "Duration of a batched GRU step, a sample of the batches",
            boundaries=[0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 5, 20],
            tag_keys=_PART,
        )
        self._batch_size = metrics.Histogram(
            "inference_batch_size",
            "Rows of a batched GRU step, a sample of the batches",
            boundaries=[1, 2, 4, 8, 16, 32, 64, 128, 256],
            tag_keys=_PART,
        )
        self._entropy = metrics.Histogram(
            "inference_entropy",
            "Entropy of the distribution over actions in nats, a sample of the steps",
            boundaries=[0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 1.1, 1.4],
            tag_keys=_PART,
        )
        self._values = Total(
            "inference_observed_values",
            "Observed values in and out of the range of the training, a sample of the steps",
            (*_PART, "range"),
        )
        self._values_seen: Counter[tuple[str, str, str]] = Counter()
        self._shadow_steps = Total(
            "inference_shadow_steps",
            "Steps of a shadow: agreed or differed in the action, failed, or skipped",
            ("states", "outcome"),
        )
        self._passed_on = Total(
            "inference_steps_passed_on",
            "Steps that were not finite by a canary, and were left to the policy in service",
            _PART,
        )
        self._leases = {
            name: Total(f"inference_{name}", help, ()) for name, help in _COUNTER_HELP.items()
        }
        self._without_place = Total(
            "inference_requests_without_place", "Requests refused at the cap of hidden states", ()
        )
        self._commit_lag_ms = metrics.Gauge(
            "inference_commit_lag_ms", "From a step to the acknowledgement of its commit, latest"
        )
        self._uncommitted_ms = metrics.Gauge(
            "inference_oldest_uncommitted_ms",
            "Age of the oldest step that is not committed, 0 when there is none",
        )

    def publish(self) -> None:
        """Publish what has come since the last call."""
        policies = self._service.policies
        for part, counts in policies.counts.items():
            self._publish_steps(part, counts)
        self._values.publish(self._values_seen)
        for states, outcomes in policies.outcomes.items():
            self._shadow_steps.publish({(states, what): n for what, n in outcomes.items()})
        refused = sum(counts.without_place for counts in policies.counts.values())
        self._without_place.publish({(): refused})
        leases = asdict(self._service.leases.counts)
        for name, total in self._leases.items():
            total.publish({(): leases[name]})
        self._commit_lag_ms.set(leases["commit_lag_s"] * 1000)
        self._uncommitted_ms.set(self._service.leases.uncommitted_s * 1000)

    def _publish_steps(self, part: Part, counts: StepCounts) -> None:
        predictions = {(*part, *what): n for what, n in counts.predictions.items()}
        self._predictions.publish(predictions)
        self._passed_on.publish({part: counts.passed_on})
        tags = part._asdict()
        for batch in counts.batches.take():
            self._batch_size.observe(len(batch.agents), tags)
            self._step_ms.observe(max(batch.seconds, 1e-6) * 1000, tags)
            self._publish_what_it_was_about(part, batch)

    def _publish_what_it_was_about(self, part: Part, batch: Batch) -> None:
        outside, every = self._inputs.count_out_of_range(batch.agents, batch.inputs)
        self._values_seen[*part, "outside"] += outside
        self._values_seen[*part, "inside"] += every - outside
        if np.isfinite(batch.hidden[0]).all():
            unavailable = self._service.network.unavailable[batch.agents[:1]]
            (entropy,) = batch.policy.entropies(batch.hidden[:1], unavailable)
            self._entropy.observe(max(float(entropy), 1e-6), part._asdict())
