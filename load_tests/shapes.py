"""The shapes of scenarios, of as many users and as long as Locust's own options say."""

from __future__ import annotations

from typing import Any

from locust import LoadTestShape, events

from load_tests.run.course import RISE, Points, users_at


class Course(LoadTestShape):
    """Follows the points of a course; its stretch is ``--run-time``, its height ``--users``."""

    abstract = True
    use_common_options = True
    points: Points = RISE

    def tick(self) -> tuple[int, float] | None:
        options = self.runner.environment.parsed_options
        users = users_at(self.points, options.num_users, self.get_run_time() / options.run_time)
        # at once: Locust makes no further tick while it starts users
        return None if users is None else (users, options.num_users)


def by_default(users: int, minutes: float) -> None:
    """Set what a scenario has where neither the command line nor Locust's page says otherwise."""

    def set_defaults(parser: Any, **_: object) -> None:
        parser.set_defaults(num_users=users, run_time=round(minutes * 60))

    events.init_command_line_parser.add_listener(set_defaults)
