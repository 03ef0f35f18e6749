"""Messages made wrong: bits flipped, cut off, out of order, of another version, nested too deeply.

What comes out may still be valid: then it is a message like any other.
"""

import random
from collections.abc import Callable

from tests.support import factories

from warren_schemas.codec.wire import encode

CORPUS = [
    encode([make()])
    for make in (
        factories.make_start_episode, factories.make_generate, factories.make_step,
        factories.make_episode_ended, factories.make_op, factories.make_op_result,
        factories.make_open_model, factories.make_close_model, factories.make_delete_model,
        factories.make_heartbeat, factories.make_policy_published, factories.make_run_ended,
        factories.make_episode_cancelled, factories.make_run_event,
    )
]  # fmt: skip

Mutation = Callable[[random.Random, bytes], bytes]


def flip_bits(rng: random.Random, body: bytes) -> bytes:
    flipped = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def cut(rng: random.Random, body: bytes) -> bytes:
    return body[: rng.randrange(len(body))]


def reorder(rng: random.Random, body: bytes) -> bytes:
    """Parts of it in another order."""
    places = sorted(rng.randrange(len(body)) for _ in range(3))
    parts = [body[i:j] for i, j in zip([0, *places], [*places, None], strict=True)]
    rng.shuffle(parts)
    return b"".join(parts)


def of_another_version(rng: random.Random, body: bytes) -> bytes:
    version = b'"version":%d' % rng.choice((0, 2, 7, 2**31, 2**70))
    return body.replace(b'"version":1', version, 1)


def nest(rng: random.Random, body: bytes) -> bytes:
    """A value of its items replaced by one that is nested deeply."""
    depth = rng.choice((10, 300, 5000))
    return body.replace(b"null", b"[" * depth + b"]" * depth, 1)


MUTATIONS: dict[str, Mutation] = {
    "bits flipped": flip_bits,
    "cut off": cut,
    "reordered": reorder,
    "another version": of_another_version,
    "nested": nest,
}


def mutant(rng: random.Random, body: bytes | None = None) -> tuple[str, bytes]:
    """Which mutation, and what it made of this message, or of one of the corpus."""
    name = rng.choice(list(MUTATIONS))
    return name, MUTATIONS[name](rng, body or rng.choice(CORPUS))
