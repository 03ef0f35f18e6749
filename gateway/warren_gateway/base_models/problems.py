"""Errors about users' base models; each says what and why."""


class NoSuchBaseModel(LookupError):
    """There is none of this reference, or it is somebody else's."""


class WrongBaseModel(ValueError):
    """What was uploaded is no base model that can be used here."""


class BaseModelInUse(Exception):
    """It can't be deleted now."""


class NoBaseModels(Exception):
    """This gateway takes no base models of users, or none so large; says which."""


class UnusableBaseModel(Exception):
    """A config names no base model that its submitter may use."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"model.base: {reason}")
