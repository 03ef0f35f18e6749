"""Pictures in messages: a file's bytes as base64, and what kind of file it is."""

import base64
import binascii
from typing import Literal, Self

from pydantic import field_validator

from warren_schemas.base import Frozen

MediaType = Literal["image/png", "image/jpeg", "image/webp"]


class Image(Frozen):
    """A picture that an environment shows. `Image.of(bytes)` makes one."""

    media_type: MediaType
    base64: str
    """The file's bytes."""

    @field_validator("base64")
    @classmethod
    def _is_base64(cls, value: str) -> str:
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"not base64: {error}") from error
        return value

    @classmethod
    def of(cls, file: bytes) -> Self:
        """From the bytes of a PNG, JPEG or WebP file. Raises `ValueError` for any other."""
        return cls(media_type=_media_type(file), base64=base64.b64encode(file).decode())


def _media_type(file: bytes) -> MediaType:
    if file.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if file.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if file[:4] == b"RIFF" and file[8:12] == b"WEBP":
        return "image/webp"
    raise ValueError(f"these {len(file)} bytes are no PNG, JPEG or WebP file")
