"""Names made wrong: cut, repeated, of other letters, of other numbers, put together of several, escaped.

A mutation draws by places and lengths and never by what stands there, so that the same seed does the same to two
names of one shape.
"""

import random
import unicodedata
from collections.abc import Callable, Sequence
from urllib.parse import quote

Mutation = Callable[[random.Random, str, Sequence[str]], str]
"""Of a name; the last are other names of the same tenant."""

MOST_CHARS = 100_000
_ALIEN = (
    *("\0", "\n", "\r", "\t", " ", "\x7f", "/", "\\", "..", "../", "//", ":", "::", "%", "_", "*", "?", "#", "&"),
    *("'", '"', "--", ";", "' OR '1'='1", "{}", "$", "`", "\u00e9", "\u200b", "\u202e", "\u212a", "\ufeff"),
    *("\uff1a", "\uff0f", "\u0660", "\ud800", "\U0001f511", "\U0010ffff"),
)  # fmt: skip
"""What regular expressions, paths, SQL, JSON and Unicode make something else of."""
_NUMBERS = (
    *("", "00", "+0", "-0", "-1", "1", " 0", "0.0", "0x0", "1e0", "0_0", "null", "\uff10", "\u0660"),
    *(str(2**31), str(2**53), str(2**63), str(2**64), "9" * 19, "9" * 300),
)  # fmt: skip
_LENGTHS = (64, 65, 128, 129, 256, 257, 4096, MOST_CHARS)
_WORDS = (
    *(":train:", ":sample:", ":create", ":load", "tinker://", "file://", "/weights/", "/sampler_weights/"),
    *("/external_weights/", "external.", "op-1", "final"),
)  # fmt: skip
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def cut(rng: random.Random, name: str, others: Sequence[str]) -> str:
    begin, end = _span(rng, name)
    return rng.choice((name[:end], name[begin:], name[:begin] + name[end:]))


def insert(rng: random.Random, name: str, others: Sequence[str]) -> str:
    place = rng.choice((0, len(name), rng.randrange(len(name) + 1)))
    return name[:place] + rng.choice((*_ALIEN, *_WORDS)) + name[place:]


def spoil(rng: random.Random, name: str, others: Sequence[str]) -> str:
    """With what no store takes, or no encoding."""
    place = rng.randrange(len(name) + 1)
    return name[:place] + rng.choice(("\0", "\ud800")) + name[place:]


def replace(rng: random.Random, name: str, others: Sequence[str]) -> str:
    begin, end = _span(rng, name)
    return name[:begin] + rng.choice((*_ALIEN, *_WORDS)) + name[end:]


def change_case(rng: random.Random, name: str, others: Sequence[str]) -> str:
    begin, end = rng.choice(((0, len(name)), _span(rng, name)))
    return name[:begin] + name[begin:end].swapcase() + name[end:]


def widen(rng: random.Random, name: str, others: Sequence[str]) -> str:
    """Letters that Unicode takes for these where it compares by meaning."""
    begin, end = _span(rng, name)
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in name[begin:end])
    return unicodedata.normalize(rng.choice(_FORMS), name[:begin] + wide + name[end:])


def renumber(rng: random.Random, name: str, others: Sequence[str]) -> str:
    head, colon, _ = name.rpartition(":")
    return f"{head}{colon}{rng.choice(_NUMBERS)}"


def splice(rng: random.Random, name: str, others: Sequence[str]) -> str:
    other = rng.choice(others)
    end, begin = rng.randrange(len(name) + 1), rng.randrange(len(other) + 1)
    return name[:end] + rng.choice(("", "", "/", ":")) + other[begin:]


def lengthen(rng: random.Random, name: str, others: Sequence[str]) -> str:
    """To what a place may just hold, or a little or much more."""
    n_chars = rng.choice(_LENGTHS)
    times = n_chars // max(len(name), 1) + 1
    return rng.choice(((name * times)[:n_chars], name.ljust(n_chars, "0"), name.rjust(n_chars)))


def escape(rng: random.Random, name: str, others: Sequence[str]) -> str:
    quoted = quote(name, safe="", errors="surrogatepass")
    everything = "".join(f"%{ord(c):02x}" if ord(c) < 128 else c for c in name)
    return rng.choice((quoted, quote(quoted, safe=""), everything, repr(name), f'"{name}"'))


MUTATIONS: tuple[Mutation, ...] = (
    spoil, cut, insert, replace, change_case, widen, renumber, splice, lengthen, escape,
)  # fmt: skip


def mutant(seed: int, name: str, others: Sequence[str]) -> str:
    """Made by up to three mutations, and never empty; seed 0 makes nothing else of it."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3)) if seed else 0):
        name = rng.choice(MUTATIONS)(rng, name, others)
    return name[:MOST_CHARS] or "0"


def _span(rng: random.Random, name: str) -> tuple[int, int]:
    begin, end = sorted(rng.randrange(len(name) + 1) for _ in range(2))
    return begin, end
