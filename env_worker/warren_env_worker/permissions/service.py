"""Requests to a service that a config named.

Invariants: a redirect is not followed; addresses are checked as they are connected to; the key goes to
no other URL than the one that was checked; how a request failed is told in fixed words, since anything
else would tell what listens where. What did happen stands in the worker's log.
"""

import ipaddress
import logging
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import orjson
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from warren.environment import ConfigError
from warren_env_worker.permissions.addresses import PublicResolver, is_public

MAX_ANSWER_BYTES = 16 * 1024 * 1024
FAILED = "it can't be reached, or it failed"
"""All that is told of a request without a good answer."""
_TRY_AGAIN = (429, 500, 502, 503, 504)

log = logging.getLogger(__name__)


class ServiceFailed(Exception):
    """No good answer. `is_passing`: it may work the next time, after `pause_s` if it said when."""

    def __init__(self, *, is_passing: bool, pause_s: float = 0.0) -> None:
        super().__init__(FAILED)
        self.is_passing = is_passing
        self.pause_s = pause_s


@dataclass(frozen=True, slots=True)
class Service:
    url: URL
    key: str | None = field(repr=False)
    """Empty where tasks are loaded: that serves the episodes of all, so no secret is told there."""
    may_be_private: bool

    @asynccontextmanager
    async def session(self, timeout_s: float) -> AsyncGenerator["ServiceSession"]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key is not None else {}
        async with self.client(headers, aiohttp.ClientTimeout(total=timeout_s)) as session:
            yield ServiceSession(self, session)

    def client(
        self,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        traces: Sequence[aiohttp.TraceConfig] = (),
    ) -> aiohttp.ClientSession:
        """For protocols of their own. Whoever asks with it calls `require_address` before each request, and
        stays below `url`. A redirect that would be followed is `ServiceFailed`."""
        if self.key == "":
            raise ConfigError(
                f"{self.url} was called with a key while tasks load, where there is none;"
                " call it in reset() or score()"
            )
        resolver = None if self.may_be_private else PublicResolver()
        redirects = aiohttp.TraceConfig()
        redirects.on_request_redirect.append(_refuse)
        return aiohttp.ClientSession(
            trace_configs=[redirects, *traces],
            connector=aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            timeout=timeout,
        )

    def require_address(self) -> None:
        """An address in place of a name is looked up by nobody. Raises `ServiceFailed`."""
        if self.may_be_private:
            return
        host = self.url.host or ""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return
        if not is_public(host):
            log.warning("%s has no public address", self.url)
            raise ServiceFailed(is_passing=False)

    async def addresses(self) -> tuple[str, ...]:
        """For a client in another process, which connects to none but these. Raises `ServiceFailed`."""
        self.require_address()
        resolver = ThreadedResolver() if self.may_be_private else PublicResolver()
        host, port = self.url.host or "", self.url.port or 0
        try:
            found = await resolver.resolve(host, port, socket.AF_UNSPEC)
        except OSError as error:
            log.warning("%s can't be reached: %s", self.url, type(error).__name__)
            raise ServiceFailed(is_passing=True) from error
        return tuple(dict.fromkeys(each["host"] for each in found))


async def _refuse(*_: object) -> None:
    raise ServiceFailed(is_passing=False)


class ServiceSession:
    def __init__(self, service: Service, session: aiohttp.ClientSession) -> None:
        self._service = service
        self._session = session

    async def post(self, body: object) -> object:
        """The JSON of a good answer. Raises `ServiceFailed`."""
        url = self._service.url
        self._service.require_address()
        try:
            async with self._session.post(url, json=body, allow_redirects=False) as response:
                if response.status != 200:
                    log.warning("%s answered with status %d", url, response.status)
                    pause_s = asked_pause_s(response.headers)
                    raise ServiceFailed(is_passing=response.status in _TRY_AGAIN, pause_s=pause_s)
                return orjson.loads(await content_of(response))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("%s can't be reached: %s", url, type(error).__name__)
            raise ServiceFailed(is_passing=True) from error
        except ValueError as error:
            log.warning("%s answered with something else than JSON", url)
            raise ServiceFailed(is_passing=False) from error


def asked_pause_s(headers: Mapping[str, str]) -> float:
    """After how long the service wants to be asked again; 0 if it does not say."""
    after = headers.get("Retry-After", "")
    return float(after) if after.isascii() and after.isdigit() else 0.0


async def content_of(response: aiohttp.ClientResponse, max_bytes: int = MAX_ANSWER_BYTES) -> bytes:
    """Raises `ValueError` for too much of it."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(65_536):
        content += chunk
        if len(content) > max_bytes:
            raise ValueError("the answer is too long")
    return bytes(content)
