"""Images in chats in the manner of OpenAI: sent along in data URLs, never fetched."""

import asyncio
import base64
from typing import Any

import pytest
from tests.support.gateway import Gateway
from tests.support.openai_asking import chat
from tests.support.rote_sampler import asking, ignored

from warren_schemas.episode import Generate
from warren_schemas.openai import OpenAIError

__all__ = ["asking", "ignored"]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n rest").decode()
JPEG = base64.b64encode(b"\xff\xd8\xff rest").decode()


def image(url: str, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def test_images_travel_with_their_message(
    asking: Gateway, ignored: asyncio.Queue[Generate]
) -> None:
    png, jpeg = f"data:image/png;base64,{PNG}", f"data:image/jpeg;base64,{JPEG}"
    content = [words("ne"), image(png), words("ver"), image(jpeg, detail="auto")]
    waiting = asyncio.create_task(chat(asking.ann, messages=[{"role": "user", "content": content}]))
    asked = await ignored.get()
    waiting.cancel()
    await asyncio.wait([waiting])
    (message,) = asked.transcript.messages
    assert message.content == "never"
    shown = [(each.media_type, each.base64) for each in message.images]
    assert shown == [("image/png", PNG), ("image/jpeg", JPEG)]


@pytest.mark.parametrize(
    ("role", "url", "reason"),
    [
        ("user", "http://example.com/a.png", "expected a data: URL"),
        ("user", "file:///etc/passwd", "expected a data: URL"),
        ("user", "data:image/png,abc", "expected a data: URL in base64"),
        ("user", "data:image/png;base64,a b", "what follows the comma is not base64"),
        ("user", "data:image/png;base64,R0lGODlh", "no PNG, JPEG or WebP file"),
        ("assistant", f"data:image/png;base64,{PNG}", "images belong to messages of other roles"),
    ],
)
async def test_what_is_no_image_is_refused_with_its_place(
    asking: Gateway, role: str, url: str, reason: str
) -> None:
    messages = [{"role": role, "content": [image(url)]}]
    status, body = await chat(asking.ann, messages=messages)
    told = OpenAIError.model_validate(body).error
    assert (status, told.type) == (400, "invalid_request_error")
    assert reason in told.message
    assert (told.param or "").startswith("messages.0")


async def test_a_model_that_reads_text_alone_is_no_fault_of_the_gateway(asking: Gateway) -> None:
    messages = [{"role": "user", "content": "fail images_unsupported"}]
    status, body = await chat(asking.ann, messages=messages)
    assert (status, body["error"]["code"]) == (400, "images_unsupported")
