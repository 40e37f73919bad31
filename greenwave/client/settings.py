"""Where the services are, how long a call may take, and how often it is sent."""

from __future__ import annotations

from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from greenwave.client.errors import InvalidInputError

CONNECTIONS = 100
IDLE_S = 30.0  # longer than a controller's pause, shorter than the minute after which servers close
MAX_ANSWER = 16 * 1024 * 1024  # bytes

_EDGE_PORTS = (8000, 8080, 8001, 8090, 9000)  # inference, gateway, forecasts, loans, cards


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The URL before the paths of each service, such as ``http://localhost:8000``."""

    inference: str
    gateway: str
    density: str
    flow: str
    accounts: str
    loans: str
    cards: str

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _checked(getattr(self, field.name)))

    @classmethod
    def at(cls, url: str) -> Addresses:
        """Return the addresses of a system whose services all are at one URL."""
        return cls(**dict.fromkeys((field.name for field in fields(cls)), url))

    @classmethod
    def of_edge(cls, host: str, scheme: str = "http", *, port_base: int | None = None) -> Addresses:
        """Return the addresses at the edge's ports, of a system that ``make up`` started.

        Args:
            scheme: ``https`` where the edge has a certificate. The inference service's port is
                plain HTTP all the same, and answers other machines only where the operator has
                opened it to them (``EDGE_INFERENCE_HOST``): it has no login.
            port_base: of a second instance, as in ``--port-base``.
        """
        inference, *others = _EDGE_PORTS
        if port_base is not None:
            inference, others = port_base, list(range(port_base + 20, port_base + 24))
        gateway, forecasts, loans, cards = (f"{scheme}://{host}:{port}" for port in others)
        return cls(
            inference=f"http://{host}:{inference}",
            gateway=gateway,
            density=forecasts,
            flow=forecasts,
            accounts=gateway,
            loans=loans,
            cards=cards,
        )


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """How long things may take, in seconds.

    Attributes:
        connect_s: until a connection is there.
        attempt_s: for one attempt. The gateway answers within 2 s, with its fallback if need be.
        total_s: for a call with all its attempts, pauses, and a login. A controller decides every
            five seconds.
    """

    connect_s: float = 1.0
    attempt_s: float = 3.0
    total_s: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 < getattr(self, field.name) < float("inf"):
                raise InvalidInputError(f"{field.name} must be a number of seconds above 0")


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often a call is sent that can be repeated, and the pauses in between.

    Attributes:
        attempts: at most, the first included.
        first_pause_s: before the second attempt; each further pause is twice as long. Half of a
            pause is left to chance, so that clients that failed together do not come together.
        longest_pause_s: unless the service asks for a longer one.
    """

    attempts: int = 4
    first_pause_s: float = 0.05
    longest_pause_s: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidInputError("attempts must be 1 at least")

    def pause_s(self, attempts: int, chance: float) -> float:
        """Return the pause after so many attempts; ``chance`` is from 0 to 1."""
        longest: float = min(self.longest_pause_s, self.first_pause_s * 2 ** (attempts - 1))
        return longest * (1 + chance) / 2


TIMEOUTS = Timeouts()
RETRIES = Retries()


def _checked(url: str) -> str:
    parts = urlsplit(url)
    plain = not (parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise InvalidInputError(f"An address looks like http://localhost:8000, not {url!r}")
    return url.rstrip("/")
