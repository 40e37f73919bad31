"""Simulators with a run of their own each, which ask again as fast as answers come."""

from load_tests.shapes import Course, by_default
from load_tests.users.simulator import Simulator

__all__ = ["Simulator"]

by_default(users=16, minutes=2)


class Rise(Course):
    """One after the other, then all."""
