"""The decisions of a rollout, in chunks of time to learn from."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """The chunks of all episodes: N chunks of C decisions of A agents.

    Attributes:
        inputs: (C, N, A, input_dim); states: (C, N, state_dim).
        hidden: (N, A, HIDDEN_DIM) as the actor left it at the start of each chunk.
        actions, free, log_probabilities, advantages, returns: (C, N, A).
    """

    inputs: Tensor
    states: Tensor
    hidden: Tensor
    actions: Tensor
    free: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    returns: Tensor

    def take(self, chunks: Tensor) -> Batch:
        parts = {name: part[:, chunks] for name, part in vars(self).items() if name != "hidden"}
        return Batch(hidden=self.hidden[chunks], **parts)


def in_chunks(part: Tensor, length: int) -> Tensor:
    """(T, E, ...) to (C, E * (T // C), ...); decisions after the last whole chunk are left out."""
    part = part[: len(part) // length * length]
    chunks = part.reshape(-1, length, *part.shape[1:])  # (T / C, C, E, ...)
    return chunks.transpose(0, 1).flatten(1, 2)
