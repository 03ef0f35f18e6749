"""What can be wrong with a request about users and keys."""


class NotPermitted(Exception):
    """The key is good, and may not do this; says what it lacks."""


class NoSuchUser(LookupError):
    """There is no such user, or not any more."""


class NoSuchKey(LookupError):
    """There is no such key, or it belongs to somebody else."""

    def __init__(self, key: str) -> None:
        super().__init__(f"There is no key {key}")


class KeyHasEnded(Exception):
    """The key was revoked, or has expired: nothing takes its place."""

    def __init__(self, key: str) -> None:
        super().__init__(f"The key {key} can't be used any more")


class UserConflict(Exception):
    """What is asked for a user contradicts what there is; says what."""
