"""What a request brings, validated strictly: a wrong type is refused, not guessed at.

A body is read the way our own messages are written (orjson), so that what it can't carry later,
such as NaN or a number over 64 bits, is refused here and not in the middle of a run.
"""

import asyncio
import re
from typing import TypeVar, cast

import orjson
from aiohttp import web
from pydantic import BaseModel, ValidationError

from warren_gateway.api.problems import Refusal
from warren_schemas.http import Problem
from warren_schemas.text.explain import Mistakes, mistakes

ModelT = TypeVar("ModelT", bound=BaseModel)

MAX_BODY_BYTES = 1024 * 1024
BODY_S = 30.0
"""How long a body may take to arrive."""
LARGE_BYTES = 16 * 1024
"""A larger body is read in a thread: the event loop has others to serve."""
TOO_LARGE = "request_entity_too_large"
MAX_WHOLE = 2**53
"""Past it a float may be a neighbour of the number that was written."""

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""In JSON; PostgreSQL stores no text that holds it."""


async def read_body(
    request: web.Request, model: type[ModelT], *, within_s: float = BODY_S
) -> ModelT:
    """Raises `Refusal`: 400 for what is not JSON, 408 for what doesn't come, 413 for what is too large, 422 for what does
    not fit the model.
    """
    try:
        async with asyncio.timeout(within_s):
            body = await _bytes(request)
    except TimeoutError as error:
        raise _late(within_s) from error
    if len(body) > LARGE_BYTES:
        return await asyncio.to_thread(_decoded, body, model)
    return _decoded(body, model)


async def read_bytes(request: web.Request, most: int, *, within_s: float = BODY_S) -> bytes:
    """A body that is no JSON. Raises `Refusal`: 400, 408 for what doesn't come, 413 for more than `most` bytes."""
    found = bytearray()
    try:
        async with asyncio.timeout(within_s):
            while chunk := await request.content.readany():
                found += chunk
                if len(found) > most:
                    raise _too_large(most)
    except TimeoutError as error:
        raise _late(within_s) from error
    except web.RequestPayloadError as error:
        problem = Problem(code="malformed_body", message="The body can't be read to its end.")
        raise Refusal(400, problem, {"Connection": "close"}) from error
    return bytes(found)


def _late(within_s: float) -> Refusal:
    problem = Problem(
        code="request_timeout",
        message=f"The body did not arrive within {within_s:g} s.",
        hint="Send it again.",
    )
    return Refusal(408, problem, {"Connection": "close"})


def _too_large(most: int) -> Refusal:
    problem = Problem(
        code=TOO_LARGE,
        message=f"The body is over {most} bytes, unpacked.",
        hint="Send it in smaller parts.",
    )
    return Refusal(413, problem, {"Connection": "close"})


async def _bytes(request: web.Request) -> bytes:
    """The body as it was before any encoding. Raises `Refusal`: 400 where it can't be had, 413 for more than the
    request may bring."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(request.client_max_size) from error
    except web.RequestPayloadError as error:
        encoding = request.headers.get("Content-Encoding")
        why = f"it is not {encoding[:40]}" if encoding else "it is not framed as its headers say"
        problem = Problem(code="malformed_body", message=f"The body can't be read: {why}.")
        raise Refusal(400, problem, {"Connection": "close"}) from error  # where it ends is unknown


def _decoded(body: bytes, model: type[ModelT]) -> ModelT:
    try:
        text = orjson.dumps(orjson.loads(body or b"{}"))
    except orjson.JSONDecodeError as error:
        raise _malformed(f"The body is not JSON: {error}.") from error
    except orjson.JSONEncodeError as error:  # it reads deeper than it writes
        raise _malformed("The body is nested too deeply.") from error
    if _NUL.search(text):
        raise _invalid(
            "invalid_config", _what(model), Mistakes(["text may not hold the NUL character"], 1)
        )
    try:
        return validated(text, model)
    except ValidationError as error:
        raise _invalid("invalid_config", _what(model), mistakes(error, model)) from error


def validated(text: bytes, model: type[ModelT]) -> ModelT:
    """For JSON Schema 8.0 is an integer, and some languages write them so. Raises `ValidationError`."""
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        if not any(
            each["type"] == "int_type" and _is_whole(each["input"]) for each in error.errors()
        ):
            raise
    return model.model_validate_json(orjson.dumps(_whole(orjson.loads(text))), strict=True)


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer() and abs(value) <= MAX_WHOLE


def _whole(value: object) -> object:
    """Each number without a fraction as an integer."""
    if isinstance(value, list):
        return [_whole(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in cast("dict[str, object]", value).items()}
    return int(cast("float", value)) if _is_whole(value) else value


def read_query(request: web.Request, model: type[ModelT]) -> ModelT:
    """Raises `Refusal` 422."""
    try:
        return model.model_validate(dict(request.query))
    except ValidationError as error:
        raise _invalid("invalid_query", "query", mistakes(error, model)) from error


def _malformed(message: str) -> Refusal:
    return Refusal(400, Problem(code="malformed_json", message=message))


def _what(model: type[BaseModel]) -> str:
    """What there is in a body, as its sender calls it."""
    return "config" if "config" in model.model_fields else "body"


def _invalid(code: str, what: str, found: Mistakes) -> Refusal:
    message = f"The {what} has {found.n} mistake{'s' if found.n > 1 else ''}."
    hint = "Correct the lines above and send it again; GET /openapi.json has the whole schema."
    return Refusal(422, Problem(code=code, message=message, details=tuple(found.lines), hint=hint))
