"""The client of a gateway: submit runs, find them again, see workers and queues.

A thin, typed layer over HTTP. It holds no state that matters: every object lives at the gateway,
and a second client with the same key sees the same.
"""

import secrets
from types import TracebackType
from typing import Self
from urllib.parse import quote

from warren.configs import ConfigLike, to_config
from warren.run import Run
from warren.settings import Settings, find_settings
from warren.transport import Transport
from warren_schemas.http import (
    Health,
    QueueList,
    QueueView,
    RunList,
    RunView,
    SubmitRun,
    WorkerList,
    WorkerView,
)


class Client:
    """Use it as `async with warren.connect() as client`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._transport.close()

    @property
    def settings(self) -> Settings:
        return self._transport.settings

    async def train(self, config: ConfigLike, *, idempotency_key: str | None = None) -> Run:
        """Submit a run; return as soon as the gateway has stored it.

        `config` is a `TrainConfig`, a dict of the same shape, or the path of a YAML file. The same
        idempotency key gives the same run; without one the client makes a fresh one, so that its
        own retries never start a second run. Raises `ConfigurationError`.
        """
        key = idempotency_key or secrets.token_hex(16)
        body = SubmitRun(config=to_config(config), idempotency_key=key)
        return Run(self._transport, await self._transport.post("/v1/runs", RunView, body))

    async def run(self, run_id: str) -> Run:
        """The run with this id. Raises `NotFound`."""
        path = f"/v1/runs/{quote(run_id, safe='')}"
        return Run(self._transport, await self._transport.get(path, RunView))

    async def runs(self, *, limit: int = 50) -> list[Run]:
        """Your newest runs, the newest first; at most `limit`, which is at most 500."""
        answer = await self._transport.get(f"/v1/runs?limit={limit}", RunList)
        return [Run(self._transport, view) for view in answer.runs]

    async def workers(self) -> tuple[WorkerView, ...]:
        """Samplers, trainers and env workers that are alive."""
        return (await self._transport.get("/v1/workers", WorkerList)).workers

    async def queues(self) -> tuple[QueueView, ...]:
        return (await self._transport.get("/v1/queues", QueueList)).queues

    async def health(self) -> Health:
        """Who answers at the gateway's address; needs no API key."""
        return await self._transport.get("/healthz", Health, needs_key=False)


def connect(
    url: str | None = None,
    api_key: str | None = None,
    *,
    timeout_s: float = 30.0,
    retry_s: float = 10.0,
) -> Client:
    """A client of the gateway at `url`; nothing is sent yet.

    What is not given comes from `WARREN_URL` and `WARREN_API_KEY`, then from this machine's own
    gateway (http://127.0.0.1:8642, `~/.warren/api-key`). One try of a request takes at most
    `timeout_s`; a gateway that is away or busy is tried again for `retry_s`.
    """
    return Client(Transport(find_settings(url, api_key), timeout_s=timeout_s, retry_s=retry_s))
