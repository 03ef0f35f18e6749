"""Secrets and services: whose, where to, and at which addresses."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import ResolveResult
from aiohttp.resolver import ThreadedResolver
from aiohttp.test_utils import TestServer
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S
from tests.trust.permitted import JUDGE, KEY, VALUE, permissions, policy

from warren.environment import ConfigError
from warren_env_worker.host.refusal import Refusal
from warren_env_worker.host.request import Request, start_of
from warren_env_worker.permissions.addresses import is_public
from warren_env_worker.permissions.granting import granted
from warren_env_worker.permissions.permissions import acting
from warren_env_worker.permissions.secrets import shortened
from warren_env_worker.permissions.service import FAILED, ServiceFailed
from warren_env_worker.rewards.composition import Composition
from warren_env_worker.rewards.scored import RewardFailed, Scored
from warren_schemas.config import ServiceReward


@pytest.fixture(autouse=True)
def _a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, VALUE)


BOUND = {"JUDGE": {"owners": ["ann"], "urls": [JUDGE], "environments": ["math"]}}


def test_a_secret_goes_to_its_owners_and_environments_alone() -> None:
    def secrets(owner: str, environment: str = "math") -> dict[str, str]:
        of = spec(environment, run_owner=owner, secrets=("JUDGE",))
        return dict(granted(policy(secrets=BOUND), of).secrets)

    assert secrets("ann") == {"JUDGE": VALUE}
    reasons = set[str]()
    for owner, environment in (("bob", "math"), ("", "math"), ("ann", "echo")):
        with pytest.raises(ConfigError) as refused:
            secrets(owner, environment)
        reasons.add(str(refused.value).replace("echo", "math"))
    os.environ.pop(KEY)
    with pytest.raises(ConfigError) as missing:
        secrets("ann")
    assert reasons == {str(missing.value)}  # nobody learns whether there is one


def test_a_key_goes_to_its_urls_alone_and_only_where_the_config_names_it() -> None:
    services = [{"url": JUDGE}, {"url": "https://other.example.org"}]
    named: dict[str, Any] = {"rewards": [{"key_variable": KEY}]}
    ann = permissions("ann", named, secrets=BOUND, services=services)
    assert ann.service(f"{JUDGE}score", KEY).key == VALUE
    with pytest.raises(ConfigError, match="no secret that"):
        ann.service("https://other.example.org/", KEY)
    with pytest.raises(ConfigError, match="no secret that"):
        permissions("bob", named, secrets=BOUND, services=services).service(JUDGE, KEY)
    assert permissions("ann", {}, secrets=BOUND, services=services).keys == ()
    assert permissions("bob", named, secrets=BOUND).keys == ()


async def test_one_owners_requests_neither_wait_for_anothers_nor_go_with_them() -> None:
    comes, goes_on = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        responses = [episode["response"] for episode in (await request.json())["episodes"]]
        if "mallory's" in responses:
            comes.set()
            await goes_on.wait()
            return web.Response(status=400)
        return web.json_response({"rewards": [1.0] * len(responses)})

    app = web.Application()
    app.router.add_post("/", answer)
    async with TestServer(app) as server, asyncio.TaskGroup() as group:
        url = str(server.make_url("/"))

        async def score(owner: str) -> float | None:
            with acting(permissions(owner, services=[{"url": url, "private": True}])):
                composition = Composition([ServiceReward(url=url, in_flight=1)])
            return (await composition.score(Scored((), f"{owner}'s", None, 0.0, "math")))[0]

        async def fail() -> None:
            with pytest.raises(RewardFailed):
                await score("mallory")

        group.create_task(fail(), name="mallory's")
        await comes.wait()
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert await score("ann") == 1.0
        finally:
            goes_on.set()


def test_no_refusal_tells_whether_a_guess_is_somebodys_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told(*names: str) -> str:
        of = spec("math", run_owner="mallory", secrets=names)
        with pytest.raises(Refusal) as refused:
            request = Request(0, of, None, lambda _: None)
            request.whole_call(1, policy(secrets=BOUND), sees_tokens=False)
        return refused.value.reason

    before = told("hunter21", "hunter22")
    monkeypatch.setenv("WARREN_SECRET_DB", "hunter22")
    assert told("hunter21", "hunter22") == before
    assert "hunter21, hunter22" in before


def test_blanks_around_a_secret_are_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, f" {VALUE}\n")
    named = {"rewards": [{"key_variable": KEY}]}
    of = spec("math", run_owner="ann", environment_config=named, secrets=("JUDGE",))
    has = granted(policy(secrets=BOUND), of)
    assert has.secrets == {"JUDGE": VALUE}
    assert has.permissions.values_of_keys == {KEY: VALUE}
    assert shortened(f"for key {VALUE}.", 100) == "for key <JUDGE>."
    monkeypatch.setenv(KEY, " ")
    with pytest.raises(ConfigError, match="none of this name"):
        granted(policy(secrets=BOUND), of)


def test_a_start_says_no_value_of_a_secret_when_it_is_shown() -> None:
    of = spec("math", run_owner="ann", environment_config={"k": KEY})
    assert VALUE not in repr(start_of(of, granted(policy(secrets=BOUND), of)).permissions)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.org/v1/",
        "http://judge.example.org/v1/",
        "https://judge.example.org:444/v1/",
        "https://judge.example.org/v10",
        "https://judge.example.org/v1/../admin",
        "https://judge.example.org/v1/%2e%2e/admin",
        "https://judge.example.org/v1/..%2fadmin",
        "https://judge.example.org/v1/..;/admin",
        "https://judge.example.org/v1/..;a=b/admin",
        "https://judge.example.org/v1/..%3b/admin",
        "https://judge.example.org/v1/..%3f/admin",
        "https://judge.example.org/v1/..%5Cadmin",
        "https://judge.example.org/v1/%252e%252e/admin",
        "https://judge.example.org/v1/%25252e%25252e/admin",
        "https://judge.example.org/v1/%2525252525252e./admin",
        "https://judge.example.org/v1/..%20/admin",
        "https://judge.example.org/v1/..%00/admin",
        "https://judge.example.org/v1/%c0%ae%c0%ae/admin",
        "https://judge.example.org/",
        "https://judge.example.org@evil.example.org/v1/",
        "https://judge.example.org\\@evil.example.org/v1/",
        "https://judge.example.org.evil.example.org/v1/",
        "https://user:password@judge.example.org/v1/",
        "https://judge.example.org/v1/ x",
        "file:///etc/passwd",
        "https://",
    ],
)
def test_urls_that_no_service_covers(url: str) -> None:
    with pytest.raises(ConfigError):
        permissions(services=[{"url": JUDGE}]).service(url, None)


def test_urls_that_a_service_covers() -> None:
    services = [{"url": JUDGE, "owners": ["ann"]}]
    urls = ("", "a?b=c", "a?up=..", "a..b/%20c;d=e", "%C3%A9", "100%2525", "%252Fa")
    for url in (
        "https://judge.example.org/v1",
        "https://JUDGE.example.org:443/v1/a",
        *(JUDGE + u for u in urls),
    ):
        assert not permissions(services=services).service(url, None).may_be_private
    with pytest.raises(ConfigError, match="allows this run"):
        permissions("bob", services=services).service(JUDGE, None)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("ff02::1", False),
        ("fec0::1", False),
        ("192.0.0.8", False),
        ("192.0.0.9", False),
        ("192.88.99.1", False),
    ],
)
def test_public_addresses(address: str, expected: bool) -> None:
    assert is_public(address) is expected


@asynccontextmanager
async def answering(*answers: web.Response) -> AsyncGenerator[tuple[str, list[str]]]:
    """A service on loopback, and the paths that it was asked."""
    asked, left = list[str](), list(answers)

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return left.pop(0)

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/")), asked


async def failure(url: str, *, private: bool, at: str = "") -> str:
    service = permissions(services=[{"url": url, "private": private}]).service(at or url, None)
    async with service.session(5.0) as session:
        with pytest.raises(ServiceFailed) as failed:
            await session.post({})
    return str(failed.value)


async def test_private_addresses_are_refused_after_resolution() -> None:
    async with answering() as (url, asked):
        port = url.rstrip("/").rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "[::1]", "2130706433", "127.1"):
            assert await failure(f"http://{host}:{port}/", private=False) == FAILED
    assert asked == []


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that says another address each time it is asked is asked once."""
    n_asked = 0

    async def resolve(
        self: object, host: str, port: int = 0, family: int = socket.AF_INET
    ) -> list[ResolveResult]:
        nonlocal n_asked
        n_asked += 1
        address = "127.0.0.1" if n_asked > 1 else "192.0.2.1"
        return [ResolveResult(hostname=host, host=address, port=port, family=2, proto=6, flags=0)]

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)
    async with answering() as (url, asked):
        rebinding = url.replace("127.0.0.1", "rebinding.example.org")
        assert await failure(rebinding, private=False) == FAILED
    assert (n_asked, asked) == (1, [])


async def test_no_redirect_is_followed_and_all_failures_read_alike() -> None:
    banner = "SSH-2.0-OpenSSH_9.2"
    there = web.Response(status=307, headers={"Location": "/elsewhere"})
    answers = [there, web.Response(status=404, text=banner), web.Response(text=banner)]
    async with answering(*answers) as (url, asked):
        told = [await failure(url, private=True) for _ in answers]
    told.append(await failure(url, private=True))  # nobody listens there any more
    assert told == [FAILED] * 4
    assert asked == ["/"] * 3
