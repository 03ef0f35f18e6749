"""Names of the protocol: `SESSION:train:N` for a model, `tinker://MODEL/KIND/NAME` for what is kept of it.

The clients make names of models themselves, so ours follow theirs; the key that a model is made with holds its name.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["weights", "sampler_weights", "external_weights"]

_EXTERNAL = "external."
"""Begins the name of a snapshot that was saved to be downloaded: the protocol has names of their own for these."""

_KEY = "tinker:"
_MODEL = re.compile(r"([A-Za-z0-9_-]{1,64}):train:([0-9]{1,19})")
_PATH = re.compile(
    r"tinker://([^/]{1,128})/(weights|sampler_weights|external_weights)/([^/]{1,128})"
)


class InvalidPath(ValueError):
    """It names nothing here; says what one looks like."""


@dataclass(frozen=True, slots=True)
class SavedWeightsPath:
    """What is kept of a model."""

    model: str
    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"tinker://{self.model}/{self.checkpoint}"

    @property
    def checkpoint(self) -> str:
        """How it is called among those of its model."""
        return f"{self.kind}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> "SavedWeightsPath":
        """Raises `InvalidPath`."""
        match = _PATH.fullmatch(text)
        if match is None:
            raise InvalidPath(
                f"{text} is no path of a checkpoint: they read tinker://RUN/weights/NAME and"
                " tinker://RUN/sampler_weights/NAME"
            )
        path = cls(match[1], cast("Kind", match[2]), match[3])
        path.require_name()
        return path

    def require_name(self) -> None:
        """Of what is kept for samplers none may look like what was saved to be downloaded. Raises `InvalidPath`."""
        if self.kind == "sampler_weights" and self.name.startswith(_EXTERNAL):
            raise InvalidPath(f"{self.name}: names for samplers can't begin with {_EXTERNAL}")

    @classmethod
    def of(
        cls, model: str, kind: Literal["checkpoint", "snapshot"], stored: str
    ) -> "SavedWeightsPath":
        """The opposite of `stored`."""
        if kind == "checkpoint":
            return cls(model, "weights", stored)
        if stored.startswith(_EXTERNAL):
            return cls(model, "external_weights", stored.removeprefix(_EXTERNAL))
        return cls(model, "sampler_weights", stored)

    @property
    def stored(self) -> str:
        """What the checkpoint or the snapshot is called with us."""
        return f"{_EXTERNAL}{self.name}" if self.kind == "external_weights" else self.name


def model_name(session: str, number: int) -> str:
    return f"{session}:train:{number}"


def session_of(model: str) -> str | None:
    """The session that a model was made in; None for what is no name of a model."""
    match = _MODEL.fullmatch(model)
    return match[1] if match else None


def key_of(model: str) -> str:
    """What it is made with."""
    return f"{_KEY}{model}"


def name_of(key: str | None) -> str:
    """The opposite of `key_of`."""
    return (key or "").removeprefix(_KEY)


def keys_of(session: str | None = None) -> str:
    """What keys of all models, or of those of a session, begin with."""
    return _KEY if session is None else f"{_KEY}{session}:train:"
