"""Answers as server-sent events, each when it is finished, in the manner of OpenAI's API.

Invariants
- Nothing is sent before there is something to send, so a request that fails at once has its status;
  after `ping_s` without an answer the stream begins with a comment, so that nobody cuts it off.
- A stream ends with `[DONE]`, or with an event that says what went wrong.
- A caller that takes nothing for `send_s` is let go.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from aiohttp import web
from pydantic import BaseModel

from warren_gateway.api.openai.errors import as_openai
from warren_gateway.api.openai.refusals import stopping, too_late, unwrapped
from warren_gateway.api.problems import Refusal
from warren_gateway.inference.answers import Telling
from warren_gateway.inference.sampler_requests import Answers, AnswersLost
from warren_gateway.timings import AnswerTimings
from warren_schemas.episode import Step

log = logging.getLogger(__name__)


class AnswerStream:
    """From the samplers to one caller."""

    def __init__(
        self, request: web.Request, telling: Telling, timings: AnswerTimings, *, has_usage: bool
    ) -> None:
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        self._response = web.StreamResponse(headers=headers)
        self._request = request
        self._telling = telling
        self._timings = timings
        self._has_usage = has_usage

    async def run(self, answers: Answers, *, answer_s: float) -> web.StreamResponse:
        """Wait so long for the last answer. Raises `Refusal` while nothing was sent yet."""
        try:
            await self._tell(answers, answer_s)
            await self._response.write_eof()
        except ConnectionResetError as error:
            log.debug("a stream of answers ended early: %s", error)
            if self._request.transport is not None:
                self._request.transport.abort()
        return self._response

    async def _tell(self, answers: Answers, answer_s: float) -> None:
        try:
            async with asyncio.timeout(answer_s):
                steps = await self._tell_each(answers)
        except Refusal as refusal:
            await self._fail(refusal)
        except TimeoutError:
            await self._fail(too_late())
        except AnswersLost:
            await self._fail(stopping())
        else:
            if self._has_usage:
                await self._send(self._telling.last(steps))
            await self._write(b"data: [DONE]\n\n")

    async def _tell_each(self, answers: Answers) -> list[Step]:
        steps: list[Step] = []
        pending = set(answers)
        while pending:
            done, pending = await asyncio.wait(
                pending, timeout=self._timings.ping_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                await self._write(b": waiting\n\n")
            for answer in done:
                step = unwrapped(answer.result())
                await self._send(self._telling.chunk(answers.index(answer), step))
                steps.append(step)
        return steps

    async def _fail(self, refusal: Refusal) -> None:
        if not self._response.prepared:
            raise refusal
        await self._send(as_openai(refusal.status, refusal.problem)[1])

    async def _send(self, body: BaseModel) -> None:
        await self._write(f"data: {body.model_dump_json(exclude_none=True)}\n\n".encode())

    async def _write(self, data: bytes) -> None:
        if not self._response.prepared:
            await self._soon(self._response.prepare(self._request))
        await self._soon(self._response.write(data))

    async def _soon(self, sending: Coroutine[Any, Any, object]) -> None:
        """Raises `ConnectionResetError` when the caller doesn't take it."""
        try:
            async with asyncio.timeout(self._timings.send_s):
                await sending
        except TimeoutError as error:
            raise ConnectionResetError("the caller takes nothing") from error
