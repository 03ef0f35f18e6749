"""Images of a transcript: what they are made of, and what is refused."""

import pytest
from pydantic import ValidationError

from warren_schemas.images import Image
from warren_schemas.transcript import ChatMessage

FILES = {
    "image/png": b"\x89PNG\r\n\x1a\n rest",
    "image/jpeg": b"\xff\xd8\xff rest",
    "image/webp": b"RIFF\0\0\0\0WEBP rest",
}


@pytest.mark.parametrize("kind", FILES)
def test_an_image_is_known_by_its_first_bytes_and_travels(kind: str) -> None:
    image = Image.of(FILES[kind])
    message = ChatMessage(role="user", content="?", images=(image,))
    assert image.media_type == kind
    assert ChatMessage.model_validate_json(message.model_dump_json()) == message
    assert message.n_chars == 1 + len(image.base64)


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match="these 6 bytes are no PNG, JPEG or WebP file"):
        Image.of(b"GIF89a")


def test_what_is_no_base64_is_refused() -> None:
    with pytest.raises(ValidationError, match="not base64"):
        Image(media_type="image/png", base64="a picture")
