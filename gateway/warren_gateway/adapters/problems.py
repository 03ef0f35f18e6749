"""Errors about adapters; each says what and why."""


class NoSuchAdapter(LookupError):
    """There is none of this reference, or it is somebody else's."""


class WrongAdapter(ValueError):
    """What was uploaded is no adapter that can be used here."""


class AdapterInUse(Exception):
    """It can't be deleted now."""


class UnusableAdapter(Exception):
    """A config starts from no adapter that its run could use; `path` is the key in the config."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
