"""What both trainings share: options, the loop, a baseline, the card, the report."""

from __future__ import annotations

import argparse
import copy
import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm import trange

from lab.train.forecasts.dataset import DATA_FILE, Calendar, Split
from models.artifacts import Card

mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})

ROOT = Path(__file__).parents[3]
REPORTS, WEIGHTS = ROOT / "models" / "reports", ROOT / "models" / "weights"
TRUTH, FORECAST, NOW = "#444444", "#d95f02", "#9ecae1"

Comparison = dict[str, dict[str, float]]
Floats = NDArray[np.float64]


def read_options(
    description: str, output: Path, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Read a training's command line: ``data``, ``output``, ``reports``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=DATA_FILE)
    parser.add_argument("--output", type=Path, default=output)
    parser.add_argument("--reports", type=Path, default=REPORTS)
    torch.set_num_threads(1)  # at these sizes more cost more than they bring
    return parser.parse_args(arguments)


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


def fit(
    network: nn.Module,
    batches: Callable[[], Iterable[Any]],
    loss_of: Callable[[Any], Tensor],
    validate: Callable[[], float],
    settings: FitSettings,
) -> float:
    """Train in place and leave the network as it was at its best.

    Args:
        batches: makes the batches of one epoch.
        loss_of: mean loss of a batch, to be differentiated.
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
        for batch in batches():
            optimiser.zero_grad()
            loss_of(batch).backward()  # type: ignore[no-untyped-call]
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


def describe_data(calendar: Calendar, split: Split) -> dict[str, Any]:
    """Return the data's origin, checksum and split, for the card."""
    digest = hashlib.sha256()
    for column in fields(calendar.measurements):
        values = getattr(calendar.measurements, column.name)
        digest.update(np.ascontiguousarray(values).tobytes())
    return {
        "source": "SUMO, lab.train.forecasts.generate",
        "days": calendar.n_days,
        "sha256": digest.hexdigest(),
        **{f"{part}_days": [days.start, days.stop - 1] for part, days in split._asdict().items()},
    }


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


def git_revision() -> str:
    """Of the code that trains, with ``-dirty`` when it has been edited since; ``unknown`` outside
    a repository."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


def write_report(path: Path, title: str, comparison: Comparison, text: str) -> None:
    """Write a Markdown page: a table of methods by column, then the text; print it, too."""
    header = f"| | {' | '.join(comparison)} |"
    rows = [
        f"| {column} | {' | '.join(f'{errors[column]:.3f}' for errors in comparison.values())} |"
        for column in comparison["LSTM"]
    ]
    rule = "|---" + "|---:" * len(comparison) + "|"
    page = "\n".join([f"# {title}", "", header, rule, *rows, "", text.strip(), ""])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page)
    sys.stdout.write(page)


class Curve(NamedTuple):
    """What one panel shows over the hours of some days: (N,) each."""

    title: str
    hours: Floats
    truth: Floats
    forecast: Floats
    as_now: Floats


def plot_forecasts(path: Path, title: str, unit: str, panels: Sequence[Curve]) -> None:
    """One panel per column, one below the other, with midnight lines."""
    figure = Figure(figsize=(11, 1.9 * len(panels) + 0.8), layout="constrained")
    figure.suptitle(title)
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(all_axes, panels, strict=True):
        axes.plot(panel.hours, panel.as_now, color=NOW, lw=1, label="as now")
        axes.plot(panel.hours, panel.truth, color=TRUTH, lw=1.4, label="truth")
        axes.plot(panel.hours, panel.forecast, color=FORECAST, lw=1.4, label="LSTM")
        axes.set_title(panel.title, loc="left", fontsize=9)
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
        for midnight in range(24, int(panel.hours.max()) + 1, 24):
            axes.axvline(midnight, color="#cccccc", lw=0.8)
    all_axes[0].legend(loc="upper right", ncols=3, frameon=False)
    all_axes[-1].set_xlabel("hours since the first midnight")
    all_axes[-1].set_xticks(range(0, int(panels[0].hours.max()) + 2, 6))
    save_figure(figure, path)


def save_figure(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # without the version in it, the same figure is the same file
    figure.savefig(path, dpi=110, metadata={"Software": None})
