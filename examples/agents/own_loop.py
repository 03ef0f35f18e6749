"""A loop of one's own that plays the episodes of a run, as it would in a notebook: no class, and no worker to start.

    warren up                  # in one terminal
    python own_loop.py         # in another; it needs `pip install '.[env]' openai`, in your clone of Warren

The model is to answer with a digit or with a letter, as it is asked. It is one that `warren up` makes by itself, and says
anything at first.
"""

import asyncio

import openai

import warren

CONFIG = {
    "name": "own loop",
    "model": {"base": "warren/tiny", "update": "full"},
    "environments": [{"name": "asked", "workers": "own"}],
    "sampling": {"max_tokens": 2},  # a character and the end of the turn
    "algorithm": {"group_size": 8, "groups_per_step": 8},
    "optimizer": {"learning_rate": 1.5e-3},
    "evaluation": {"episodes": 64},  # greedy, before and after
    "limits": {"steps": 60, "stop_at_reward": 0.97, "episode_s": 120},
}
CLIENT = openai.AsyncOpenAI(api_key="of no episode")
"""All episodes share its connections; each brings its own address and key."""


async def play(episode: warren.Episode[str]) -> float:
    model = CLIENT.with_options(base_url=episode.base_url, api_key=episode.api_key)
    answer = await model.chat.completions.create(
        model=episode.model, messages=[{"role": "user", "content": f"a {episode.task}?"}]
    )
    said = answer.choices[0].message.content or ""
    return float(said.isdigit() if episode.task == "digit" else said.isalpha())


async def main() -> None:
    async with warren.connect() as client:
        run = await client.train(CONFIG)
        async with client.episodes(run, tasks=["digit", "letter"]) as episodes:
            await episodes.play(play)
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
