"""Clerks who create, fetch, change and delete accounts, loans and cards."""

from load_tests.shapes import Course, by_default
from load_tests.users.clerk import Clerk

__all__ = ["Clerk"]

by_default(users=30, minutes=2)


class Rise(Course):
    """One after the other, then all."""
