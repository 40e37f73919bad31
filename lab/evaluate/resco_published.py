"""Figures that others have published of RESCO's scenarios, in SUMO 1.9.

Source: J. Ault and G. Sharon, "Reinforcement Learning Benchmarks for Traffic Signal Control",
NeurIPS 2021, Datasets and Benchmarks; https://github.com/Pi-Star-Lab/RESCO, revision fc65e91,
``resco_benchmark/utils``: ``avg_timeLoss.py``, ``avg_duration.py``, ``avg_waitingTime.py`` and
``avg_queue.py``. Of the learners, each figure is the best episode of the mean curve over all runs;
of the others, the mean over all episodes.
"""

from __future__ import annotations

from collections.abc import Mapping

MAPS = (
    *("grid4x4", "arterial4x4", "cologne1", "cologne3", "cologne8"),
    *("ingolstadt1", "ingolstadt7", "ingolstadt21"),
)


# By measure and algorithm, in the order of MAPS; None where nothing is published.
PUBLISHED: Mapping[str, Mapping[str, tuple[float | None, ...]]] = {
    "delay_s": {
        "fixed time": (None, None, 56.6, 46.4, 63.8, 39.4, 91.3, 133.1),
        "greedy": (34.3, 820.8, 27.8, 90.7, 21.9, 28.3, 80.6, 76.3),
        "max pressure": (52.6, 952.7, 65.9, 162.3, 47.7, 23.6, 46.8, 136.7),
        "IDQN": (32.9, 1168.3, 26.1, 24.0, 22.1, 21.5, 31.2, 59.6),
        "IPPO": (44.0, 686.6, 43.2, 24.0, 21.6, 20.9, 31.7, 93.1),
        "MPLight": (46.9, 837.8, 28.7, 83.6, 60.4, 28.3, 48.2, 78.2),
        "FMA2C": (99.8, 654.1, 30.8, 26.9, 33.9, 27.0, 51.4, 90.3),
    },
    "resco_trip_s": {
        "IDQN": (144.1, 689.8, 43.6, 59.0, 86.0, 35.3, 68.7, 197.2),
        "IPPO": (154.0, 505.4, 58.4, 59.5, 85.7, 35.1, 69.1, 233.7),
        "MPLight": (157.8, 379.6, 45.8, 102.3, 123.9, 41.1, 76.6, 215.7),
        "FMA2C": (209.3, 326.2, 48.1, 62.8, 98.0, 40.5, 86.7, 226.6),
    },
    "resco_waiting_s": {
        "IDQN": (11.6, 461.6, 8.0, 8.5, 5.5, 3.9, 8.7, 20.2),
        "IPPO": (18.9, 363.3, 19.5, 8.7, 5.2, 3.8, 8.7, 46.4),
        "MPLight": (20.2, 186.5, 8.6, 46.3, 30.3, 8.3, 15.0, 34.6),
        "FMA2C": (71.4, 141.3, 11.8, 12.4, 14.3, 7.8, 22.7, 44.2),
    },
    "resco_queue": {
        "IDQN": (0.33, 15.97, 2.09, 0.87, 0.38, 0.43, 0.67, 0.80),
        "IPPO": (0.50, 7.20, 6.14, 0.98, 0.36, 0.47, 0.74, 1.89),
        "MPLight": (0.55, 8.74, 2.45, 5.40, 2.33, 0.61, 1.34, 1.48),
        "FMA2C": (1.74, 3.13, 3.20, 1.79, 1.00, 1.02, 1.85, 1.78),
    },
}
