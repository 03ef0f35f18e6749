"""The same turns by three ways, N in flight in a closed loop: bare, by the queue, by the gateway.

bare     the engine, stepped in this process on the turns' token ids
queue    `Generate` on the in-process broker, supervisor, child process, `Step` back
gateway  HTTP `POST /inference/v1/generate` from another process, and then as by the queue
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import numpy as np
import orjson
from benchmarks.sampler_queue.asker import ask_all
from benchmarks.sampler_queue.place import BASE, Place, prompts, turns
from tests.support.episodes import policy

from warren_gpu_worker.sampler.engines.port import Engine, PolicyKey, Request
from warren_schemas.config import Sampling
from warren_schemas.episode import PolicyRef

Way = Callable[[int, int, Sampling], Awaitable[int]]
"""(turns, of them in flight, sampling) -> tokens sampled."""


def bare(engine: Engine, folder: str) -> Way:
    key = PolicyKey("model")
    engine.load(key, 0, None)

    def take(n: int, n_in_flight: int, sampling: Sampling) -> int:
        waiting = [
            Request(time.monotonic_ns() + i, key, np.array(prompt, np.int32), sampling)
            for i, prompt in enumerate(prompts(folder, n))
        ]
        n_tokens = 0
        engine.add_requests([waiting.pop() for _ in range(n_in_flight)])
        while engine.has_work:
            for answer in engine.step():
                assert isinstance(answer, Request)
                n_tokens += answer.ids_T.size
                if waiting:
                    engine.add_requests([waiting.pop()])
        return n_tokens

    async def way(n: int, n_in_flight: int, sampling: Sampling) -> int:
        return await asyncio.to_thread(take, n, n_in_flight, sampling)

    return way


def by_queue(place: Place, of: PolicyRef | None = None) -> Way:
    async def way(n: int, n_in_flight: int, sampling: Sampling) -> int:
        waiting = turns(of or policy(BASE), n, sampling)
        n_tokens, n_open = 0, n_in_flight
        await place.side.send([waiting.pop() for _ in range(n_in_flight)])
        while n_open:
            steps = await place.side.steps(1)
            n_tokens += sum(step.transcript.tokens.n_sampled for step in steps)
            following = [waiting.pop() for _ in steps[: len(waiting)]]
            await place.side.send(following)
            n_open += len(following) - len(steps)
        return n_tokens

    return way


def by_gateway(place: Place, folder: str) -> Way:
    async def way(n: int, n_in_flight: int, sampling: Sampling) -> int:
        params = {"max_tokens": sampling.max_tokens, "logprobs": 0}
        questions = [
            orjson.dumps({"model": BASE, "token_ids": prompt, "sampling_params": params})
            for prompt in prompts(folder, n)
        ]
        asking = partial(
            ask_all, place.gateway.url, dict(place.gateway.ann.headers), questions, n_in_flight
        )
        return await asyncio.get_running_loop().run_in_executor(place.asker, asking)

    return way
