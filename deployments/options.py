"""The base of what a serve config can set: ``args`` and ``user_config``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator


class Options(BaseModel):
    """Options that refuse unknown keys, and removed ones with the advice what to do.

    A subclass names its removed keys: ``removed = {"key": "Delete it: …"}``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    removed: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_removed(cls, values: Any) -> Any:
        faults = [
            f"The option {key} was removed. {advice}"
            for key, advice in cls.removed.items()
            if isinstance(values, Mapping) and key in values
        ]
        if faults:
            raise ValueError(" ".join(faults))
        return values
