"""An OpenAI-compatible chat endpoint whose next answers are given; it remembers what it was asked."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

Answer = Callable[[dict[str, Any]], web.Response]


def saying(text: str, n_tokens: int = 10) -> Answer:
    return lambda _: web.json_response(
        {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}],
            "usage": {
                "prompt_tokens": n_tokens - 1,
                "completion_tokens": 1,
                "total_tokens": n_tokens,
            },
        }
    )


def status(number: int, retry_after: str = "0") -> Answer:
    return lambda _: web.Response(status=number, headers={"Retry-After": retry_after})


class FakeJudge:
    def __init__(self, *answers: Answer, otherwise: Answer | None = None) -> None:
        self.answers = list(answers)
        self.otherwise = otherwise or saying("7")
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.goes_on = asyncio.Event()
        """Nobody is answered before."""
        self.goes_on.set()
        self.asked = asyncio.Semaphore(0)
        self.n_now, self.most_at_once = 0, 0

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        self.n_now += 1
        self.most_at_once = max(self.most_at_once, self.n_now)
        self.asked.release()
        try:
            await self.goes_on.wait()
        finally:
            self.n_now -= 1
        return (self.answers.pop(0) if self.answers else self.otherwise)(self.bodies[-1])

    def served(self) -> TestServer:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.answer)
        return TestServer(app)


def base_url(server: BaseTestServer) -> str:
    return str(server.make_url("/v1"))
