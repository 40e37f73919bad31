"""Races of clients against the loans service, whatever serves it.

Requests spread over the base URLs given, all of one store; each function asserts what must hold.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import httpx


def _client() -> httpx.AsyncClient:
    # a connection that rests is closed here before uvicorn closes it, after 5 s, under a request
    limits = httpx.Limits(max_connections=100, keepalive_expiry=2.0)
    return httpx.AsyncClient(timeout=30.0, limits=limits)


async def creates_of_one_mobile_number(urls: Sequence[str], mobile: str, times: int = 50) -> None:
    """Assert that exactly one create succeeds, and every other gets the documented duplicate."""
    query = {"mobileNumber": mobile}
    async with _client() as client:
        targets = [url for _, url in zip(range(times), cycle(urls), strict=False)]
        answers = await asyncio.gather(*(client.post(url, params=query) for url in targets))
        assert Counter(answer.status_code for answer in answers) == {201: 1, 400: times - 1}
        refused = {a.json()["errorMessage"] for a in answers if a.status_code == 400}
        assert refused == {f"Loan already registered with given mobileNumber {mobile}"}
        for url in urls:
            found = await client.get(url, params=query)
            assert (found.status_code, found.json()["mobileNumber"]) == (200, mobile)


async def updates_of_one_record(urls: Sequence[str], mobile: str, times: int = 60) -> None:
    """Assert that every state that a reader sees is one that a writer sent, whole."""
    query = {"mobileNumber": mobile}
    async with _client() as client:
        await client.post(urls[0], params=query)
        number = (await client.get(urls[0], params=query)).json()["loanNumber"]

        def version(n: int) -> dict[str, Any]:
            amounts = {"totalLoan": n + 1, "amountPaid": n, "outstandingAmount": n}
            return {"mobileNumber": mobile, "loanNumber": number, "loanType": f"{n}", **amounts}

        async def write(n: int, url: str) -> None:
            assert (await client.put(url, json=version(n))).status_code == 200

        seen: set[str] = set()

        async def read_meanwhile(url: str) -> None:
            while not writing.done():
                loan = (await client.get(url, params=query)).json()
                assert loan["loanType"] == "Home Loan" or loan == version(int(loan["loanType"]))
                seen.add(loan["loanType"])

        targets = [url for _, url in zip(range(times), cycle(urls), strict=False)]
        for _ in range(50):  # writers may be through before any reader comes
            writing = asyncio.gather(*(write(n, url) for n, url in enumerate(targets)))
            await asyncio.gather(writing, *map(read_meanwhile, targets[:10]))
            if len(seen) > 2:
                break
        assert len(seen) > 2, "no reader came between the writers"
        last = (await client.get(urls[0], params=query)).json()
        assert last == version(int(last["loanType"]))


async def updates_to_one_mobile_number(urls: Sequence[str], mobiles: Sequence[str]) -> None:
    """Assert that of all records that want a mobile number one gets it and the others stay."""
    *owners, wanted = mobiles
    async with _client() as client:
        records = {}
        for mobile in owners:
            await client.post(urls[0], params={"mobileNumber": mobile})
            found = await client.get(urls[0], params={"mobileNumber": mobile})
            records[mobile] = found.json()
        moves = [
            client.put(url, json={**record, "mobileNumber": wanted})
            for record, url in zip(records.values(), cycle(urls), strict=False)
        ]
        statuses = [answer.status_code for answer in await asyncio.gather(*moves)]
        assert Counter(statuses) == {200: 1, 400: len(owners) - 1}
        for (mobile, record), status in zip(records.items(), statuses, strict=True):
            mine = await client.get(urls[0], params={"mobileNumber": mobile})
            assert mine.status_code == (404 if status == 200 else 200)
            if status == 200:
                moved = await client.get(urls[0], params={"mobileNumber": wanted})
                assert moved.json() == {**record, "mobileNumber": wanted}
