"""The client of a gateway: submit runs, find them again, see workers and queues.

A thin, typed layer over HTTP. It holds no state that matters: every object lives at the gateway,
and a second client with the same key sees the same.
"""

import secrets
from types import TracebackType
from typing import Self
from urllib.parse import quote

from warren.access import Access
from warren.choosing import HINT, MOST_LOOKED_AT, choose_run, is_run_id, require_one
from warren.configs import ConfigLike, to_config
from warren.connection.transport import Transport
from warren.errors import NotFound
from warren.pending import pending
from warren.recording import Beginning, recorded_source
from warren.run import Run
from warren.settings import Settings, find_settings
from warren_schemas.check import RunCheck
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
from warren_schemas.users.budgets import BudgetList, BudgetView


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

    @property
    def access(self) -> Access:
        """Users, API keys and the audit log."""
        return Access(self._transport)

    @pending
    async def train(
        self, config: ConfigLike, *, idempotency_key: str | None = None, priority: int = 0
    ) -> Run:
        """Submit a run; return as soon as the gateway has stored it.

        `config` is a `TrainConfig`, a dict of the same shape, or the path of a YAML file. The same
        idempotency key gives the same run; without one the client makes a fresh one, so that its
        own retries never start a second run. `priority`: higher ones go first in the queue for trainers;
        more than 0 takes an admin's key. Raises `ConfigurationError`.
        """
        key = idempotency_key or secrets.token_hex(16)
        body = SubmitRun(config=to_config(config), idempotency_key=key, priority=priority)
        return Run(self._transport, await self._transport.post("/v1/runs", RunView, body))

    @pending
    async def check(self, config: ConfigLike) -> RunCheck:
        """Whether the gateway would take this config and could run it now, and what it may cost.

        Nothing is submitted. Raises `ConfigurationError` for what `train` would refuse.
        """
        body = SubmitRun(config=to_config(config))
        return await self._transport.post("/v1/runs/check", RunCheck, body)

    @pending
    async def replay(
        self,
        run: Run | str,
        into: ConfigLike,
        *,
        from_: Beginning = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Submit a run that trains on what another run recorded, and follows it while it goes on.

        `run` is the recording run, its id or its name; `into` the config of the new one, as in `train`, whose
        `source` is set to the recording and which loses what only live episodes have a use for (`sampling`,
        `algorithm.max_staleness`); `from_` an offset, a time, or a timedelta (so long ago).
        Raises `ConfigurationError`.
        """
        recorder = await self._id_of(run) if isinstance(run, str) else run.id
        config = to_config(into).for_replay(recorded_source(recorder, from_))
        return await self.train(config, idempotency_key=idempotency_key)

    @pending
    async def run(self, name: str, *, only_one: bool = False) -> Run:
        """The run with this id, name or end of an id; `last` is the newest.

        Of several runs of a name it is the newest that still goes on, else the newest, and the log
        says which; `only_one` refuses such a name. Raises `NotFound`, `ConfigurationError`.
        """
        if is_run_id(name):
            return Run(self._transport, await self._show(name))
        views = [run.view for run in await self.runs(limit=MOST_LOOKED_AT)]
        if only_one:
            require_one(views, name)
        return Run(self._transport, choose_run(views, name))

    @pending
    async def runs(self, *, limit: int = 50) -> list[Run]:
        """Your newest runs, the newest first; at most `limit`, which is at most 500."""
        answer = await self._transport.get(f"/v1/runs?limit={limit}", RunList)
        return [Run(self._transport, view) for view in answer.runs]

    @pending
    async def workers(self) -> tuple[WorkerView, ...]:
        """Samplers, trainers and env workers that are alive."""
        return (await self._transport.get("/v1/workers", WorkerList)).workers

    @pending
    async def queues(self) -> tuple[QueueView, ...]:
        return (await self._transport.get("/v1/queues", QueueList)).queues

    @pending
    async def budgets(self) -> tuple[BudgetView, ...]:
        """How much of what users share you have in use, and your limits."""
        return (await self._transport.get("/v1/budgets", BudgetList)).budgets

    @pending
    async def dead_letters(self, *, limit: int = 100) -> tuple[DeadLetterView, ...]:
        """Messages that were given up, oldest first: those of your runs."""
        path = f"/v1/dead-letters?limit={limit}"
        return (await self._transport.get(path, DeadLetterList)).letters

    @pending
    async def dead_letter(self, letter: str) -> DeadLetterDetails:
        """One of them, with its items. Raises `NotFound`."""
        return await self._transport.get(_letter(letter), DeadLetterDetails)

    @pending
    async def republish_dead_letter(self, letter: str) -> DeadLetterView:
        """Send it to the queue that it came from. Raises `NotFound`, or `GatewayError` (409) when
        that queue is gone."""
        return await self._transport.post(f"{_letter(letter)}/republish", DeadLetterView)

    @pending
    async def drop_dead_letter(self, letter: str) -> DeadLetterView:
        """Forget it. Raises `NotFound`."""
        return await self._transport.post(f"{_letter(letter)}/drop", DeadLetterView)

    @pending
    async def health(self) -> Health:
        """Who answers at the gateway's address; needs no API key."""
        return await self._transport.get("/healthz", Health, needs_key=False)

    async def _show(self, run_id: str) -> RunView:
        try:
            return await self._transport.get(f"/v1/runs/{quote(run_id, safe='')}", RunView)
        except NotFound as error:
            raise NotFound(f"There is no run {run_id}", hint=HINT) from error

    async def _id_of(self, name: str) -> RunId:
        return RunId(name) if is_run_id(name) else (await self.run(name)).id


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
