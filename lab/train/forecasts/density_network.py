"""The density network: three hours of five edges in, the change to the next hour out.

An LSTM (Hochreiter and Schmidhuber, 1997) in PyTorch, the definition that training uses;
:mod:`models.density.forecast` is the same arithmetic for serving.
"""

from __future__ import annotations

from torch import Tensor, nn

from models.density.forecast import MAX_SCALED, N_EDGES


class DensityNetwork(nn.Module):
    """Predicts the change from the newest hour: with no knowledge at all it says "as now"."""

    def __init__(self, hidden_dim: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(N_EDGES, hidden_dim, batch_first=True)
        self.head = nn.Linear(hidden_dim, N_EDGES)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, scaled: Tensor) -> Tensor:
        """Map (B, 3, 5) scaled densities, oldest first, to (B, 5) of the next hour."""
        _, (hidden, _) = self.lstm(scaled.clamp(-MAX_SCALED, MAX_SCALED))
        forecast: Tensor = scaled[:, -1] + self.head(hidden[-1])
        return forecast
