"""Why a load test cannot be made."""


class LoadTestError(Exception):
    """The message is one sentence that says what is wrong, and what to do."""
