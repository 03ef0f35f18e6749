"""What is asked of an OpenEnv server.

Invariant: a server whose sessions are all taken is waited for, as long as the caller may take; one that can't be had
for `patience_s` is `OpenEnvFailed`. What it says of an error is told if it is of the protocol, and nothing else is.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import ValidationError

from warren_env_worker.environments.openenv.answers import (
    MESSAGE,
    SCHEMA,
    Error,
    Observed,
    Schema,
)
from warren_env_worker.environments.openenv.socket import Socket
from warren_env_worker.permissions.retrying_client import RetryingClient
from warren_env_worker.permissions.service import Service, content_of

ANSWER_S = 300.0
"""For an answer by HTTP; sessions wait as long as the step may take."""

ResultT = TypeVar("ResultT")


class OpenEnvFailed(Exception):
    """The server can't be had, its environment raised, or what it answers is not of the protocol."""


class OpenEnvServer:
    """For one event loop."""

    def __init__(self, service: Service, *, patience_s: float) -> None:
        self.url = service.url
        headers = {"Authorization": f"Bearer {service.key}"} if service.key is not None else {}
        self._client = RetryingClient(
            service, headers, answer_s=ANSWER_S, patience_s=patience_s, failure=OpenEnvFailed
        )

    async def close(self) -> None:
        await self._client.close()

    async def with_retries(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return await self._client.with_retries(ask)

    async def schema(self) -> Schema:
        """Of its actions. Raises `OpenEnvFailed`."""
        content = await self.with_retries(self._schema)
        try:
            return SCHEMA.validate_json(content)
        except ValidationError as error:
            raise self._client.unreadable("schema", error) from error

    async def connected(self) -> Socket:
        """A session of its own, which may turn out to be one too many. Raises `RetryLater`, `OpenEnvFailed`."""
        return Socket(await self._client.socket("ws"))

    def read(self, told: str) -> Observed | Error:
        try:
            return MESSAGE.validate_json(told).data
        except ValidationError as error:
            raise self._client.unreadable("ws", error) from error

    async def _schema(self) -> bytes:
        async with self._client.response("GET", "schema") as response:
            if response.status != 200:
                raise self._client.failed()
            try:
                return await content_of(response)
            except ValueError as error:
                raise OpenEnvFailed(f"{self.url}: the schema is too long") from error
