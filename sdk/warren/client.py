"""The client of a gateway: submit runs, find them again, see workers and queues.

A thin, typed layer over HTTP. It holds no state that matters: every object lives at the gateway,
and a second client with the same key sees the same.
"""

import secrets
from types import TracebackType
from typing import Self
from urllib.parse import quote

from warren.configs import ConfigLike, to_config
from warren.recording import Beginning, recorded_source
from warren.run import Run
from warren.settings import Settings, find_settings
from warren.transport import Transport
from warren_schemas.http import (
    DeadLetterDetails,
    DeadLetterList,
    DeadLetterView,
    Health,
    QueueList,
    QueueView,
    RunList,
    RunView,
    SubmitRun,
    WorkerList,
    WorkerView,
)
from warren_schemas.ids import RunId


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

    async def replay(
        self,
        run: Run | str,
        into: ConfigLike,
        *,
        from_: Beginning = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Submit a run that trains on what another run recorded, and follows it while it goes on.

        `run` is the recording run or its id; `into` the config of the new one, as in `train`, whose
        `source` is set to the recording; `from_` an offset, a time, or a timedelta (so long ago).
        Raises `ConfigurationError`.
        """
        recorder = RunId(run) if isinstance(run, str) else run.id
        config = to_config(into).model_copy(update={"source": recorded_source(recorder, from_)})
        return await self.train(config, idempotency_key=idempotency_key)

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

    async def dead_letters(self, *, limit: int = 100) -> tuple[DeadLetterView, ...]:
        """Messages that were given up, oldest first: those of your runs."""
        path = f"/v1/dead-letters?limit={limit}"
        return (await self._transport.get(path, DeadLetterList)).letters

    async def dead_letter(self, letter: str) -> DeadLetterDetails:
        """One of them, with its items. Raises `NotFound`."""
        return await self._transport.get(_letter(letter), DeadLetterDetails)

    async def republish_dead_letter(self, letter: str) -> DeadLetterView:
        """Send it to the queue that it came from. Raises `NotFound`, or `GatewayError` (409) when
        that queue is gone."""
        return await self._transport.post(f"{_letter(letter)}/republish", DeadLetterView)

    async def drop_dead_letter(self, letter: str) -> DeadLetterView:
        """Forget it. Raises `NotFound`."""
        return await self._transport.post(f"{_letter(letter)}/drop", DeadLetterView)

    async def health(self) -> Health:
        """Who answers at the gateway's address; needs no API key."""
        return await self._transport.get("/healthz", Health, needs_key=False)


def _letter(letter: str) -> str:
    return f"/v1/dead-letters/{quote(letter, safe='')}"


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
