"""Reading what a request brings."""

import asyncio
import threading

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pydantic import field_validator
from tests.support.gateway import CONFIG, Gateway
from tests.support.patience import PATIENCE_S
from tests.support.tinker import zstd

from warren_gateway.api.problems import answering_problems
from warren_gateway.api.reading import LARGE_BYTES, MAX_BODY_BYTES, read_body
from warren_schemas.base import Frozen
from warren_schemas.http import Problem


class Text(Frozen):
    text: str

    @field_validator("text")
    @classmethod
    def _says_where_it_was_read(cls, _: str) -> str:
        return threading.current_thread().name


async def _read(request: web.Request) -> web.Response:
    return web.Response(text=(await read_body(request, Text)).text)


@pytest.mark.parametrize(("size_bytes", "is_aside"), [(0, False), (LARGE_BYTES, True)])
async def test_a_large_body_is_read_beside_the_event_loop(size_bytes: int, is_aside: bool) -> None:
    app = web.Application()
    app.router.add_post("/", _read)
    async with (
        TestClient(TestServer(app)) as client,
        client.post("/", json={"text": "x" * size_bytes}) as response,
    ):
        assert (await response.text() != threading.current_thread().name) is is_aside


@pytest.mark.parametrize("depth", [254, 300, 1000])
async def test_json_that_is_nested_too_deeply_is_400(gateway: Gateway, depth: int) -> None:
    text = b'{"config":' + b"[" * depth + b"]" * depth + b"}"
    async with gateway.ann.post("/v1/runs", data=text) as response:
        assert response.status == 400
        problem = Problem.model_validate_json(await response.read())
    assert (problem.code, problem.message) == ("malformed_json", "The body is nested too deeply.")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize(
    "path", ["/v1/runs", "/v1/runs/check", "/v1/chat/completions", "/v1/dead-letters/x/drop"]
)
async def test_a_body_that_is_not_encoded_as_it_says_is_400(
    gateway: Gateway, encoding: str, path: str
) -> None:
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    for body in (b'{"config": {}}', b"x" * 100_000):
        async with gateway.ann.post(path, data=body, headers=headers) as response:
            assert response.status == 400, await response.text()
            assert f"it is not {encoding}" in await response.text()


async def test_a_body_is_as_large_as_it_is_once_it_is_unpacked(gateway: Gateway) -> None:
    headers = {"Content-Encoding": "zstd", "Content-Type": "application/json"}
    body = zstd(b" " * (MAX_BODY_BYTES + 1))
    async with gateway.ann.post("/v1/runs", data=body, headers=headers) as response:
        assert response.status == 413, await response.text()


async def test_a_body_that_does_not_come_is_408_and_its_connection_is_closed() -> None:
    async def impatient(request: web.Request) -> web.Response:
        return web.Response(text=(await read_body(request, Text, within_s=0.01)).text)

    app = web.Application(
        middlewares=[answering_problems(lambda _, status, problem: (status, problem))]
    )
    app.router.add_post("/", impatient)
    async with TestServer(app) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.make_url("/").port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        async with asyncio.timeout(PATIENCE_S):
            head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head.lower()


@pytest.mark.parametrize(
    ("steps", "status"), [("1.0", 201), ("1e1", 201), ("1.5", 422), ("1e17", 422)]
)
async def test_a_whole_number_may_be_written_with_a_fraction_of_0(
    gateway: Gateway, steps: str, status: int
) -> None:
    """As JSON Schema has it."""
    config = orjson.dumps(CONFIG)[:-1].decode() + f', "limits": {{"steps": {steps}}}}}'
    async with gateway.ann.post("/v1/runs", data=f'{{"config": {config}}}') as response:
        assert response.status == status


@pytest.mark.parametrize("by", ["run", "user", "day"])
@pytest.mark.parametrize(("since_s", "status"), [("253402300799", 200), ("1e30", 422)])
async def test_a_time_that_no_calendar_has_is_refused(
    gateway: Gateway, by: str, since_s: str, status: int
) -> None:
    """It was asked of the database, which can't hold that many days."""
    async with gateway.ann.get(f"/v1/usage?by={by}&since_s={since_s}") as response:
        assert response.status == status
