"""A loop of a user's own that plays a run's episodes, as a program: `python -m tests.support.own_loop URL RUN`.

Its key is in WARREN_API_KEY. One agent in eight raises.
"""

import asyncio
import sys

import aiohttp

import warren


async def play(session: aiohttp.ClientSession, episode: warren.Episode[str]) -> float:
    if (episode.index + episode.member) % 8 == 7:
        raise ValueError("this one gives up")
    asked = {"messages": [{"role": "user", "content": episode.task}], "model": episode.model}
    async with session.post(
        f"{episode.base_url}/chat/completions",
        json=asked,
        headers={"Authorization": f"Bearer {episode.api_key}"},
    ) as answer:
        said = (await answer.json())["choices"][0]["message"]["content"]
    return float(sum(map(ord, said)) % 2)  # whatever a policy says earns it about half


async def main(url: str, run: str) -> None:
    digits = [f"{digit}?" for digit in range(10)]
    async with (
        warren.connect(url) as client,
        aiohttp.ClientSession() as session,
        client.episodes(run, tasks=digits, max_live=256) as episodes,
    ):
        await episodes.play(lambda episode: play(session, episode))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
