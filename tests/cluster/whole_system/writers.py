"""Clients that create records, whatever happens to the service meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Self

import httpx

from tests.support.waiting import until_async


class Writers:
    """Clients that create records in a block, and note what was acknowledged."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.acknowledged: list[str] = []
        self.other_answers: Counter[str] = Counter()
        self._numbers = iter(range(10**9))
        self._stopped = False

    async def __aenter__(self) -> Self:
        self._client = httpx.AsyncClient(timeout=10)
        self._tasks = [asyncio.create_task(self._write(self._client)) for _ in range(8)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopped = True
        await asyncio.gather(*self._tasks)
        await self._client.aclose()

    async def have_acknowledged(self, count: int) -> None:
        def progress() -> object:
            return len(self.acknowledged), self.other_answers.most_common(3)

        await until_async(lambda: len(self.acknowledged) >= count, progress)

    async def _write(self, client: httpx.AsyncClient) -> None:
        while not self._stopped:
            mobile = f"{next(self._numbers):010}"
            try:
                answer = await client.post(self.url, params={"mobileNumber": mobile})
            except httpx.HTTPError as error:
                other = type(error).__name__
            else:
                other = f"{answer.status_code} {answer.text[:100]}"
                if answer.status_code == 201:
                    self.acknowledged.append(mobile)
                    continue
            self.other_answers[other] += 1
            await asyncio.sleep(0.05)

    async def lost(self) -> list[str]:
        """Return the acknowledged records that cannot be fetched."""
        gate = asyncio.Semaphore(16)
        async with httpx.AsyncClient(timeout=20) as client:

            async def is_lost(mobile: str) -> bool:
                async with gate:
                    answer = await client.get(self.url, params={"mobileNumber": mobile})
                return answer.status_code != 200

            lost = await asyncio.gather(*(is_lost(mobile) for mobile in self.acknowledged))
        return [mobile for mobile, gone in zip(self.acknowledged, lost, strict=True) if gone]
