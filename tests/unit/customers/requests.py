"""Speaking to a record service as a client of the contract does."""

from dataclasses import dataclass
from typing import Any

import httpx

from deployments.customers.records.record_type import RecordType

MOBILE = "4354437687"
OTHER_MOBILE = "9345432123"

# Digits to Unicode, and to a careless `str.isdigit`, but not to the contract.
ARABIC_DIGIT, FULL_WIDTH_DIGIT = "\u0661", "\uff11"


@dataclass(frozen=True)
class Service:
    """A service and a client of it; paths are below the base path."""

    client: httpx.AsyncClient
    record_type: RecordType

    @property
    def name(self) -> str:
        return self.record_type.name

    async def request(self, method: str, path: str = "", **options: Any) -> httpx.Response:
        return await self.client.request(method, self.record_type.base_path + path, **options)

    async def create(self, mobile: str = MOBILE) -> httpx.Response:
        if self.record_type.create_request is None:
            return await self.request("POST", params={"mobileNumber": mobile})
        return await self.request("POST", json=new_customer(mobileNumber=mobile))

    async def fetch(self, mobile: str = MOBILE) -> httpx.Response:
        return await self.request("GET", params={"mobileNumber": mobile})

    async def update(self, record: Any) -> httpx.Response:
        return await self.request("PUT", json=record)

    async def delete(self, mobile: str = MOBILE) -> httpx.Response:
        return await self.request("DELETE", params={"mobileNumber": mobile})

    async def created(self, mobile: str = MOBILE) -> dict[str, Any]:
        """Return a fresh record, as fetch shows it."""
        assert (await self.create(mobile)).status_code == 201
        record: dict[str, Any] = (await self.fetch(mobile)).json()
        return record


def new_customer(**changes: Any) -> dict[str, Any]:
    """Return the body of accounts create, with some fields changed."""
    return {"name": "Madan Reddy", "email": "tutor@eazybytes", "mobileNumber": MOBILE, **changes}


def changed(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Copy a record with another value at a dotted path; `MISSING` takes the field away."""
    name, _, rest = path.partition(".")
    copy = dict(record)
    if rest:
        copy[name] = changed(record[name], rest, value)
    elif value is MISSING:
        del copy[name]
    else:
        copy[name] = value
    return copy


MISSING: Any = object()
