"""The probes of every service, and calls that only ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from greenwave.client.call import Call, Effect, Reply
from greenwave.client.failures import failure_of
from greenwave.client.results import Form, Probe

AnyForm = TypeVar("AnyForm", bound=Form)


class Probed(ABC):
    """A service that reports whether one replica of it is alive and ready."""

    __slots__ = ()

    @property
    @abstractmethod
    def root(self) -> str:
        """The URL before the service's own paths."""

    def livez(self) -> Call[Probe]:
        """Return whether the replica that answers is alive; trouble is a result, not an error."""
        return status_call(f"{self.root}/livez", Probe)

    def readyz(self) -> Call[Probe]:
        """Return whether the replica that answers has all that its work needs."""
        return status_call(f"{self.root}/readyz", Probe)


def get(url: str, form: type[AnyForm], headers: Mapping[str, str] | None = None) -> Call[AnyForm]:
    """Return a call that asks for a result of this form."""
    return Call(
        method="GET",
        url=url,
        effect=Effect.NONE,
        headers=headers or {},
        read=lambda reply: form.model_validate_json(reply.body),
    )


def status_call(url: str, form: type[AnyForm]) -> Call[AnyForm]:
    """Return a call whose result may come with the status 503."""
    return Call(
        method="GET",
        url=url,
        effect=Effect.NONE,
        answers=(200, 503),
        read=partial(_read_status, form),
    )


def _read_status(form: type[AnyForm], reply: Reply) -> AnyForm:
    try:
        return form.model_validate_json(reply.body)
    except ValueError:
        if reply.status == 200:
            raise
        raise failure_of(reply).error from None
