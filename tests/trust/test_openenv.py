"""The URL of an OpenEnv server is a URL in a tenant's config: its WebSockets are held to the same rules as its requests."""

import pytest
from aiohttp import web
from tests.trust.permitted import permissions
from tests.trust.test_services import answering

from warren_env_worker.environments.openenv.environment import OpenEnv
from warren_env_worker.environments.openenv.server import OpenEnvFailed, OpenEnvServer
from warren_env_worker.permissions.permissions import acting
from warren_env_worker.permissions.service import FAILED


async def failure(url: str, *, private: bool) -> str:
    with acting(permissions(services=[{"url": url, "private": private}])):
        server = OpenEnvServer(OpenEnv(url).service, patience_s=0.01)
    try:
        with pytest.raises(OpenEnvFailed) as failed:
            await server.with_retries(server.connected)
    finally:
        await server.close()
    return str(failed.value)


async def test_no_socket_leads_to_a_private_address() -> None:
    async with answering() as (url, asked):
        port = url.rstrip("/").rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "[::1]", "127.1"):
            there = f"http://{host}:{port}/"
            assert await failure(there, private=False) == f"{there}: {FAILED}"
    assert asked == []


async def test_no_redirect_of_a_socket_is_followed_and_all_failures_read_alike() -> None:
    there = web.Response(status=307, headers={"Location": "/elsewhere"})
    answers = [there, web.Response(status=404), web.Response(text="SSH-2.0-OpenSSH_9.2")]
    async with answering(*answers) as (url, asked):
        told = {await failure(url, private=True) for _ in answers}
    told.add(await failure(url, private=True))  # nobody listens there any more
    assert told == {f"{url}: {FAILED}"}
    assert asked == ["/ws"] * 3
