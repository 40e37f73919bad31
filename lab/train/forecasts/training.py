"""What both trainings share: the loop, a baseline, the card, the report."""

from __future__ import annotations

import argparse
import copy
import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm import trange

from lab.tables import markdown
from lab.train.forecasts.dataset import COLUMNS, Calendar, Split, Windows, split_days
from models.artifacts import Card

ROOT = Path(__file__).parents[3]
REPORTS, WEIGHTS = ROOT / "models" / "reports", ROOT / "models" / "weights"
LSTM = "LSTM"

Comparison = dict[str, dict[str, float]]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FitSettings:
    """How long and how fast to learn.

    Attributes:
        learning_rate: at the start; halved whenever half the patience passes without progress.
        patience: epochs without progress on the validation days after which training ends.
    """

    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    max_epochs: int = 200
    patience: int = 16


def run(
    description: str,
    train: Callable[[Calendar, Split, Path, Path, FitSettings], object],
    output: Path,
    settings: FitSettings,
) -> None:
    """Train on the shipped days, in place of the shipped model and report."""
    argparse.ArgumentParser(description=description).parse_args()
    torch.set_num_threads(1)  # at these sizes more cost more than they bring
    calendar = Calendar.load()
    train(calendar, split_days(calendar.n_days), output, REPORTS, settings)


def fit(
    network: nn.Module,
    n_windows: int,
    batch: int,
    loss_of: Callable[[Tensor], Tensor],
    validate: Callable[[], float],
    settings: FitSettings,
) -> float:
    """Train in place and leave the network as it was at its best.

    Args:
        n_windows, batch: how many windows there are, and how many of them each step has.
        loss_of: mean loss of the windows with these numbers, to be differentiated.
        validate: error on the validation days.

    Returns:
        The least error on the validation days.
    """
    optimiser = torch.optim.AdamW(
        network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=0.5, patience=settings.patience // 2 - 1
    )
    best, best_state, epochs_since = float("inf"), copy.deepcopy(network.state_dict()), 0
    progress = trange(settings.max_epochs, unit="epoch")
    for _ in progress:
        network.train()
        for rows in torch.split(torch.randperm(n_windows), batch):
            optimiser.zero_grad()
            loss_of(rows).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
        network.eval()
        with torch.inference_mode():
            error = validate()
        schedule.step(error)
        epochs_since += 1
        if error < best:
            best, best_state, epochs_since = error, copy.deepcopy(network.state_dict()), 0
        progress.set_postfix(validation=f"{error:.4f}", best=f"{best:.4f}")
        if epochs_since >= settings.patience:
            break
    network.load_state_dict(best_state)
    network.eval()
    return best


class LinearAutoregression:
    """Least squares from all values of a window, and a constant, to the target."""

    def __init__(self, inputs: Floats, targets: Floats, ridge: float = 1e-3) -> None:
        features = self._features(inputs)
        # a trace of ridge, for columns that hardly vary; it does not reach the constant's weight
        penalty = ridge * np.diag(features.var(axis=0)) * len(features)
        gram = features.T @ features + penalty
        self._weights = np.linalg.solve(gram + 1e-9 * np.eye(len(gram)), features.T @ targets)

    def __call__(self, inputs: Floats) -> Floats:
        forecast: Floats = np.maximum(self._features(inputs) @ self._weights, 0.0)
        return forecast

    @staticmethod
    def _features(inputs: Floats) -> Floats:
        flat = inputs.reshape(len(inputs), -1)
        return np.hstack([flat, np.ones((len(flat), 1))])


@dataclass(frozen=True)
class Measured:
    """Forecasts of the test days by method, (N, columns) each, beside what came.

    Attributes:
        columns: their names.
        unit: of the figures.
    """

    columns: Sequence[str]
    unit: str
    test: Windows
    forecasts: dict[str, Floats]

    def comparison(self) -> Comparison:
        """Mean absolute error by method and column, and over all columns."""
        found = {}
        for method, forecast in self.forecasts.items():
            errors = np.abs(forecast - self.test.targets).mean(axis=0)
            named = dict(zip(self.columns, errors.round(4).tolist(), strict=True))
            found[method] = {**named, "all": round(float(errors.mean()), 4)}
        return found

    def complete(self, card: Card, stds: Floats, metrics: dict[str, Any]) -> Card:
        """Return the card with the figures of the network; the loss is in standard deviations."""
        lstm = self.comparison()[LSTM]
        loss = np.mean(np.array([lstm[each] for each in self.columns]) / stds)
        figures = {"test_loss": round(float(loss), 4), "test_mae": lstm["all"], "metrics": metrics}
        return card.model_copy(update=figures)

    def write_report(self, path: Path, title: str, text: str) -> None:
        """Write a Markdown page: a table of methods by column, then the text; print it, too."""
        errors = self.comparison()
        rows = [
            [column, *(f"{each[column]:.3f}" for each in errors.values())]
            for column in (*self.columns, "all")
        ]
        table = markdown(["", *errors], rows)
        subject = f"{title}, {self.unit}: mean absolute error on the test days"
        page = "\n".join([f"# {subject}", "", *table, "", text.strip(), ""])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page)
        sys.stdout.write(page)


def draft_card(calendar: Calendar, split: Split) -> Card:
    """Return a card without its figures."""
    date = datetime.now(UTC).date().isoformat()
    return Card(
        version=date.replace("-", "."),
        created=date,
        git_revision=git_revision(),
        data=describe_data(calendar, split),
        test_loss=0.0,
        test_mae=0.0,
        metrics={},
    )


def describe_data(calendar: Calendar, split: Split) -> dict[str, Any]:
    """Return the data's origin, checksum and split, for the card."""
    digest = hashlib.sha256()
    for column in COLUMNS:
        digest.update(np.ascontiguousarray(getattr(calendar, column)).tobytes())
    return {
        "source": "SUMO, lab.train.forecasts.generate",
        "days": calendar.n_days,
        "sha256": digest.hexdigest(),
        **{f"{part}_days": [days.start, days.stop - 1] for part, days in split._asdict().items()},
    }


def git_revision() -> str:
    """Of the code that trains, with ``-dirty`` when it has been edited since; ``unknown`` outside
    a repository."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"
