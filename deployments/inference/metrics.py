"""Ray metrics of the inference service.

Ray's exporter offers them as ``ray_serve_…`` or ``ray_inference_…`` on every node's metrics port.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
from ray.serve import metrics

from deployments.inference.policies import Role
from deployments.inference.service import InferenceService
from deployments.inference.telemetry import BatchSample, StepCounts
from deployments.metrics.exported import Total
from models.policy.inputs import InputLayout
from models.signals.diagnosis import FAULTS

_ROLE = Role._fields


class InferenceMetrics:
    """Ray metrics of one replica; to be created in the replica's constructor."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        self._inputs = InputLayout(service.network)
        self._predictions = Total(
            "inference_predictions", "Predictions made", (*_ROLE, "junction", "action")
        )
        self._failed_detectors = Total(
            "inference_failed_detectors",
            "Detectors whose reading was replaced, summed over the predictions, by their fault",
            (*_ROLE, "junction", "fault"),
        )
        self._step_ms = metrics.Histogram(
            "inference_step_ms",
            "Duration of a batched GRU step, a sample of the batches",
            boundaries=[0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 5, 20],
            tag_keys=_ROLE,
        )
        self._batch_size = metrics.Histogram(
            "inference_batch_size",
            "Rows of a batched GRU step, a sample of the batches",
            boundaries=[1, 2, 4, 8, 16, 32, 64, 128, 256],
            tag_keys=_ROLE,
        )
        self._entropy = metrics.Histogram(
            "inference_entropy",
            "Entropy of the distribution over actions in nats, a sample of the steps",
            boundaries=[0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 1.1, 1.4],
            tag_keys=_ROLE,
        )
        self._values = Total(
            "inference_observed_values",
            "Observed values in and out of the range of the training, a sample of the steps",
            (*_ROLE, "range"),
        )
        self._values_seen: Counter[tuple[str, str, str]] = Counter()
        self._shadow_steps = Total(
            "inference_shadow_steps",
            "Steps of a shadow: agreed or differed in the action, failed, or skipped",
            ("states", "outcome"),
        )
        self._at_capacity = Total(
            "inference_requests_without_place", "Requests refused at the cap of hidden states", ()
        )
        self._raced = Total(
            "inference_raced_rows",
            "Rows that were stepped again: another replica had changed their hidden states",
            (),
        )
        self._lock_wait_ms = metrics.Gauge(
            "inference_lock_wait_ms",
            "Longest wait for the other replicas' changes of the hidden states, since the last one",
        )

    def publish(self) -> None:
        """Publish the changes since the last call."""
        policies = self._service.policies
        for role, of_role in policies.counts.items():
            self._publish_steps(role, of_role)
        self._values.publish(self._values_seen)
        for states, outcomes in policies.shadow_outcomes.items():
            self._shadow_steps.publish({(states, what): n for what, n in outcomes.items()})
        counts = policies.counts.values()
        self._at_capacity.publish({(): sum(each.at_capacity for each in counts)})
        self._raced.publish({(): sum(each.raced for each in counts)})
        self._lock_wait_ms.set(self._service.engine.take_longest_wait_s() * 1000)

    def _publish_steps(self, role: Role, counts: StepCounts) -> None:
        predictions = {(*role, *what): n for what, n in counts.predictions.items()}
        self._predictions.publish(predictions)
        if self._service.diagnoses_detectors:
            faults = product({junction for junction, _ in counts.predictions}, FAULTS)
            failed = {(*role, *what): counts.failed_detectors[what] for what in faults}
            self._failed_detectors.publish(failed)
        tags = role._asdict()
        for batch in counts.batches.take():
            self._batch_size.observe(len(batch.agents), tags)
            self._step_ms.observe(max(batch.seconds, 1e-6) * 1000, tags)
            self._publish_sample(role, batch)

    def _publish_sample(self, role: Role, batch: BatchSample) -> None:
        outside, inside = self._inputs.count_out_of_range(batch.agents, batch.inputs)
        self._values_seen[*role, "outside"] += outside
        self._values_seen[*role, "inside"] += inside
        if np.isfinite(batch.hidden[0]).all():
            unavailable = self._service.network.unavailable[batch.agents[:1]]
            (entropy,) = batch.policy.entropies(batch.hidden[:1], unavailable)
            self._entropy.observe(max(float(entropy), 1e-6), role._asdict())
