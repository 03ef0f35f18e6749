"""A request that is no valid HTTP may hold a key: nothing of it is told, to anybody."""

import asyncio
import logging

import pytest
from tests.support.gateway import Gateway

from warren_schemas.http import Problem

KEY = "wk_0123456789ab_" + "s3cret" * 8


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {KEY}\x00",
        f"Authorization : Bearer {KEY}",
        f"Authorization: Bearer {KEY}\rX: y",
        f"Authorization Bearer {KEY}",
        f"Authorization: Bearer {KEY * 200}",
        f"Authorization: {KEY}",
    ],
)
async def test_a_malformed_header_is_neither_answered_nor_logged(
    line: str, gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"GET /v1/runs HTTP/1.1\r\nHost: x\r\n{line}\r\nConnection: close\r\n\r\n".encode()
    )
    answer = (await reader.read()).decode()
    writer.close()
    assert answer.split()[1] in ("400", "401")
    assert "s3cret" not in answer
    assert "s3cret" not in caplog.text
    Problem.model_validate_json(answer.partition("\r\n\r\n")[2])
