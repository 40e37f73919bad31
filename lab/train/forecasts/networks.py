"""The networks of both forecasts in PyTorch, the definition that training uses.

:mod:`models.density.forecast` and :mod:`models.flow.forecast` are the same arithmetic for serving.
Both are an LSTM (Hochreiter and Schmidhuber, 1997) that predicts a change: with no knowledge at all
they say "as now".
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.density.forecast import MAX_SCALED, N_EDGES
from models.flow.forecast import HEAD_DIM
from models.flow.window import FEATURES, HORIZON


class DensityNetwork(nn.Module):
    """Three hours of five edges in, the next hour out, as the change from the newest one."""

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


class Outlook(NamedTuple):
    """A Laplace distribution per row, in scaled units: (B,) median, (B,) logarithm of the scale."""

    median: Tensor
    log_scale: Tensor


class FlowNetwork(nn.Module):
    """Sixty minutes in, the flow of the next fifteen and its uncertainty out.

    One LSTM for all junctions; the head knows which junction it speaks of. It predicts the change
    from the mean of the last fifteen minutes.
    """

    def __init__(self, hidden_dim: int, n_junctions: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(len(FEATURES), hidden_dim, batch_first=True)
        self.hidden = nn.Linear(hidden_dim + n_junctions, HEAD_DIM)
        self.head = nn.Linear(HEAD_DIM, 2)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, scaled: Tensor, junctions: Tensor) -> Outlook:
        """Look ahead from (B, 60, 3) scaled features and (B, n_junctions) one-hot junctions."""
        _, (hidden, _) = self.lstm(scaled.clamp(-MAX_SCALED, MAX_SCALED))
        features = torch.relu(self.hidden(torch.cat([hidden[-1], junctions], dim=1)))
        change, log_scale = self.head(features).unbind(dim=1)
        now = scaled[:, -HORIZON:, 0].mean(dim=1)
        return Outlook(now + change, log_scale)
