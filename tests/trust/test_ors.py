"""The URL of an ORS server is a URL in a tenant's config: it reaches what the operator lists, and no more."""

import pytest
from aiohttp import web
from tests.trust.permitted import permissions
from tests.trust.test_services import answering

from warren_env_worker.environments.ors.environment import Ors
from warren_env_worker.environments.ors.server import OrsFailed
from warren_env_worker.permissions.permissions import acting
from warren_env_worker.permissions.service import FAILED


async def failure(url: str, *, private: bool, name: str = "vault") -> str:
    with acting(permissions(services=[{"url": url, "private": private}])):
        environment = Ors(url, name, patience_s=0.01)
    with pytest.raises(OrsFailed) as failed:
        await environment.tasks("train")
    return str(failed.value)


async def test_no_private_address_is_asked() -> None:
    async with answering() as (url, asked):
        port = url.rstrip("/").rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "[::1]", "127.1"):
            there = f"http://{host}:{port}/"
            assert await failure(there, private=False) == f"{there}: {FAILED}"
    assert asked == []


async def test_no_redirect_is_followed_and_all_failures_read_alike() -> None:
    banner = "SSH-2.0-OpenSSH_9.2"
    there = web.Response(status=307, headers={"Location": "/elsewhere"})
    answers = [there, web.Response(status=404, text=banner), web.Response(text=banner)]
    async with answering(*answers) as (url, asked):
        told = {await failure(url, private=True) for _ in answers}
    told.add(await failure(url, private=True))  # nobody listens there any more
    assert told == {f"{url}: {FAILED}"}
    assert asked == ["/list_environments"] * 3


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1/vault/splits",
        "//other.example.org/vault/splits",
        "https:///vault/splits",
        "/a/vault/splits",
        "/vault/../splits",
        "/vault%2f..%2f/splits",
        "/vault/other",
        "/splits",
        "",
        "http://[",
    ],
)
async def test_a_redirect_to_anything_but_a_name_is_not_followed(location: str) -> None:
    there = web.Response(status=308, headers={"Location": location})
    async with answering(there) as (url, asked):
        assert await failure(url, private=True, name="me/vault") == f"{url}: {FAILED}"
    assert asked == ["/splits"]


@pytest.mark.parametrize("location", ["/ors/vault/splits", "/vault/splits"])
async def test_the_name_in_a_redirect_is_asked_for_below_the_listed_path(location: str) -> None:
    """A server behind a proxy may not know of it."""
    there = web.Response(status=308, headers={"Location": location})
    answers = [there, web.json_response([{"name": "train"}]), web.json_response({"num_tasks": 2})]
    async with answering(*answers) as (url, asked):
        with acting(permissions(services=[{"url": f"{url}ors/", "private": True}])):
            environment = Ors(f"{url}ors", "me/vault")
        assert await environment.tasks("train") == [0, 1]
    assert asked == ["/ors/splits", "/ors/vault/splits", "/ors/vault/num_tasks"]


async def test_it_stays_below_the_listed_path() -> None:
    async with answering(web.json_response(["other"])) as (url, asked):
        with acting(permissions(services=[{"url": f"{url}ors/", "private": True}])):
            environment = Ors(f"{url}ors", "vault")
        with pytest.raises(ValueError, match="has no environment vault"):
            await environment.tasks("train")
    assert asked == ["/ors/list_environments"]
