"""A rush hour of cities: five controllers each behind the gateway, a decision every five seconds.

200 cities are 200 decisions a second.
"""

from load_tests.run.course import RUSH_HOUR
from load_tests.shapes import Course, by_default
from load_tests.users.city import City

__all__ = ["City"]

by_default(users=200, minutes=3)


class RushHour(Course):
    """Cities come, stay, and go."""

    points = RUSH_HOUR
