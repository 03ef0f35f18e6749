"""Connections on which no whole request comes."""

import asyncio

import pytest
from aiohttp import web
from tests.support.gateway import Gateway
from tests.support.patience import PATIENCE_S

from warren_gateway.api.app import build_runner


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_a_connection_without_a_whole_request_is_closed(
    sent: bytes, gateway: Gateway
) -> None:
    runner = build_runner(gateway.services, shutdown_s=0.0, idle_s=0.05)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(sent)

        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()
    finally:
        await runner.cleanup()
