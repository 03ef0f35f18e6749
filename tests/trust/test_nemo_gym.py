"""The URL of a resource server is a URL in a tenant's config: no cookie and no row goes where the operator did not allow it."""

import json

import pytest
from aiohttp import web
from tests.trust.permitted import permissions
from tests.trust.test_services import answering

from warren.environment import Context
from warren_env_worker.environments.nemo_gym.connection import GymFailed
from warren_env_worker.environments.nemo_gym.environment import NemoGym
from warren_env_worker.permissions.permissions import acting
from warren_env_worker.permissions.service import FAILED

ROW = json.dumps({"responses_create_params": {"input": "?"}}).encode()


async def failure(url: str, *, private: bool) -> str:
    with acting(permissions(services=[{"url": url, "private": private}])):
        environment = NemoGym(url, patience_s=0.01)
    try:
        with pytest.raises(GymFailed) as failed:
            await environment.reset(ROW, Context.derive(1))
    finally:
        await environment.close()
    return str(failed.value)


async def test_no_request_leads_to_a_private_address() -> None:
    async with answering() as (url, asked):
        port = url.rstrip("/").rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "[::1]", "127.1"):
            there = f"http://{host}:{port}/"
            assert await failure(there, private=False) == f"{there}: {FAILED}"
    assert asked == []


async def test_no_redirect_is_followed_and_all_failures_read_alike() -> None:
    there = web.Response(status=307, headers={"Location": "/elsewhere"})
    answers = [there, web.Response(status=404), web.Response(status=422, text="SSH-2.0")]
    async with answering(*answers) as (url, asked):
        told = {await failure(url, private=True) for _ in answers}
    told.add(await failure(url, private=True))  # nobody listens there any more
    assert told == {f"{url}: {FAILED}"}
    assert asked == ["/seed_session"] * 3
