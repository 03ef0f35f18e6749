"""What a reference to a data set means: `NAME`, `OWNER/NAME`, either with `@` and the beginning of its digest."""

from typing import NamedTuple


class Referred(NamedTuple):
    """A reference, taken apart."""

    owner: str | None
    """None: whoever refers to it."""
    name: str
    digest: str
    """Its beginning; empty for the newest version."""


def referred(reference: str) -> Referred:
    """Of what matches `DatasetReference`."""
    rest, _, digest = reference.partition("@")
    owner, slash, name = rest.rpartition("/")
    return Referred(owner if slash else None, name, digest)


def exact(owner: str, name: str, digest: str) -> str:
    """The reference that means one version, whoever says it and whatever is uploaded later."""
    return f"{owner}/{name}@{digest}"
