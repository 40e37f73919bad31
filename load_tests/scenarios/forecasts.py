"""Planners who ask for the density of the next hour and the flow of the next minutes."""

from load_tests.shapes import Course, by_default
from load_tests.users.planner import Planner

__all__ = ["Planner"]

by_default(users=50, minutes=2)


class Rise(Course):
    """One after the other, then all."""
