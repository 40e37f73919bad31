"""What a state actor tells of itself, as Ray metrics."""

from __future__ import annotations

from ray.util import metrics

from deployments.stateful.authority.authority import HiddenStateAuthority


class AuthorityMetrics:
    """Ray metrics of one state actor; to be created in it."""

    def __init__(self, authority: HiddenStateAuthority, app: str, shard: int) -> None:
        self._authority = authority
        self._tags = {"application": app, "shard": str(shard)}
        self._states = self._gauge("hidden_states", "Hidden states kept")
        self._allowed = self._gauge("hidden_states_allowed", "Hidden states that may be kept")
        self._life = self._gauge(
            "hidden_states_life", "Which life of the state actor this is: one more than recoveries"
        )
        self._recovery_ms = self._gauge(
            "hidden_states_recovery_ms", "From the start of this life to when it acted"
        )

    def _gauge(self, name: str, description: str) -> metrics.Gauge:
        return metrics.Gauge(name, description, tag_keys=tuple(self._tags))

    def publish(self) -> None:
        """Publish how it is now."""
        self._states.set(self._authority.n_states, self._tags)
        self._allowed.set(self._authority.max_states, self._tags)
        self._life.set(self._authority.life, self._tags)
        self._recovery_ms.set(self._authority.recovery_s * 1000, self._tags)
