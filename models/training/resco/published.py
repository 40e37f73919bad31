"""Delays that others have published, in seconds per vehicle, with SUMO 1.9.

Source: J. Ault and G. Sharon, "Reinforcement Learning Benchmarks for Traffic Signal Control",
NeurIPS 2021, Datasets and Benchmarks; https://github.com/Pi-Star-Lab/RESCO, avg_timeLoss.py. Of the
learners, the best episode of the mean curve.
"""

from __future__ import annotations

CONTROLLERS = ("fixed time", "greedy", "max pressure", "IDQN", "IPPO")
PUBLISHED: dict[str, tuple[float, ...]] = {
    "cologne1": (56.6, 27.8, 65.9, 26.1, 43.2),
    "cologne3": (46.4, 90.7, 162.3, 24.0, 24.0),
    "cologne8": (63.8, 21.9, 47.7, 22.1, 21.6),
    "ingolstadt1": (39.4, 28.3, 23.6, 21.5, 20.9),
    "ingolstadt7": (91.3, 80.6, 46.8, 31.2, 31.7),
    "ingolstadt21": (133.1, 76.3, 136.7, 59.6, 93.1),
}
MAPS = tuple(PUBLISHED)
