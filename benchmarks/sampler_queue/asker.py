"""Whoever asks the gateway: a process of its own, as a user's program is."""

import asyncio
from collections.abc import Mapping

import aiohttp
import orjson


def ask_all(url: str, headers: Mapping[str, str], questions: list[bytes], n_in_flight: int) -> int:
    """Ask these, so many at a time; the tokens that were sampled."""
    return asyncio.run(_ask_all(url, headers, questions, n_in_flight))


async def _ask_all(
    url: str, headers: Mapping[str, str], questions: list[bytes], n_in_flight: int
) -> int:
    async with aiohttp.ClientSession(url, headers=headers) as session:

        async def ask() -> int:
            n_tokens = 0
            while questions:
                async with session.post("/inference/v1/generate", data=questions.pop()) as response:
                    response.raise_for_status()
                    told = orjson.loads(await response.read())
                    n_tokens += told["usage"]["completion_tokens"]
            return n_tokens

        return sum(await asyncio.gather(*(ask() for _ in range(n_in_flight))))
