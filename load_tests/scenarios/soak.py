"""Everybody at once, half of what the system carries, for as long as a leak needs to show.

The memory of every process of the system is sampled meanwhile.
"""

from load_tests.shapes import Course, by_default
from load_tests.users.city import City
from load_tests.users.clerk import Clerk
from load_tests.users.newcomer import Newcomer
from load_tests.users.planner import Planner
from load_tests.users.simulator import UnhurriedSimulator

__all__ = ["City", "Clerk", "Newcomer", "Planner", "UnhurriedSimulator"]

by_default(users=60, minutes=30)


class Rise(Course):
    """One after the other, then all."""
