"""What comes from outside: cities, planners, clerks, and newcomers who log in."""

from load_tests.run.course import RUSH_HOUR
from load_tests.shapes import Course, by_default
from load_tests.users.city import City
from load_tests.users.clerk import Clerk
from load_tests.users.newcomer import Newcomer
from load_tests.users.planner import Planner

__all__ = ["City", "Clerk", "Newcomer", "Planner"]

by_default(users=100, minutes=3)


class RushHour(Course):
    """They come, stay, and go."""

    points = RUSH_HOUR
