"""A crowd of 256 connections that ask without pause, and clients among it whose times are taken.

What is accepted has to be answered soon, and what is not, with a 503 that says when to come again.
``--connections``, or LOAD_CONNECTIONS in the environment, makes the crowd larger.
"""

from load_tests.crowd import with_a_crowd
from load_tests.shapes import Course, by_default
from load_tests.users.insistent import Insistent

__all__ = ["Insistent"]

by_default(users=20, minutes=1)
with_a_crowd()


class Rise(Course):
    """One after the other, then all."""
