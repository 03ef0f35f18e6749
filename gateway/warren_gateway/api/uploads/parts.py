"""Files that users upload, part by part, whatever they are of."""

from aiohttp import web

from warren_gateway.api.problems import Refusal
from warren_gateway.api.reading import read_bytes
from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt
from warren_schemas.config.numbers import Sha256
from warren_schemas.http import Problem
from warren_schemas.http.uploads import MAX_CHUNK_BYTES


class FindUpload(Frozen):
    sha256: Sha256


class FilePart(FindUpload):
    """`sha256` is that of the whole file."""

    offset: NonNegativeInt = 0
    """Where in the file the part begins, in bytes."""


async def read_part(request: web.Request) -> bytes:
    """Raises `Refusal` for an empty one."""
    data = await read_bytes(request, MAX_CHUNK_BYTES)
    if not data:
        raise Refusal(422, Problem(code="wrong_upload", message="The part of the file is empty."))
    return data
