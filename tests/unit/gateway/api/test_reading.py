"""Reading what a request brings."""

import threading

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pydantic import field_validator

from warren_gateway.api.reading import LARGE_BYTES, read_body
from warren_schemas.base import Frozen


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
