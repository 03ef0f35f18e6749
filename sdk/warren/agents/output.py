"""What a program prints: all of it is taken, and the first of it is kept."""

import asyncio

MAX_OUTPUT_BYTES = 1024**2


async def read_output(stream: asyncio.StreamReader) -> str:
    """To its end, so that nobody waits to write."""
    kept = bytearray()
    while chunk := await stream.read(65536):
        kept += chunk[: MAX_OUTPUT_BYTES - len(kept)]
    return kept.decode(errors="replace")
