"""What base models that users brought are called.

In a config: `@NAME`, `@OWNER/NAME`, either with `@DIGEST`. Everywhere else, as GPU workers offer them:
`warren/uploaded-` with the digest of the version and a number that was drawn for it. That name is of one version of one
owner, tells nobody else whose it is, and lets whoever loads it check that the files are these.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping

UPLOADED = "warren/uploaded-"
_DIGITS = 32
_NAME = re.compile(rf"{UPLOADED}([0-9a-f]{{{_DIGITS}}})-[0-9a-f]{{16}}")
SEAL = "SHA256SUMS"


def is_reference(base_model: str) -> bool:
    """Whether it is what a config calls an uploaded one."""
    return base_model.startswith("@")


def is_uploaded(base_model: str) -> bool:
    """Whether it is what workers call an uploaded one; also where no such name was ever given."""
    return base_model.startswith(UPLOADED)


def new_name(digest: str) -> str:
    return f"{UPLOADED}{digest[:_DIGITS]}-{secrets.token_hex(8)}"


def folder_name(base_model: str) -> str:
    """That of its files, wherever they lie. Raises `ValueError` for a name that was never given."""
    if _NAME.fullmatch(base_model) is None:
        raise ValueError(f"{base_model} is no name of an uploaded base model")
    return base_model.removeprefix("warren/")


def is_seal_of(base_model: str, seal: bytes) -> bool:
    """Whether these are the digests of the version that has this name."""
    found = _NAME.fullmatch(base_model)
    return found is not None and hashlib.sha256(seal).hexdigest().startswith(found[1])


def seal_of(sha256s: Mapping[str, str]) -> bytes:
    """Of files by name: what `sha256sum` would say of them."""
    return "".join(f"{sha256s[name]}  {name}\n" for name in sorted(sha256s)).encode()
