"""The body of every error answer."""

from warren_schemas.base import Frozen


class Problem(Frozen):
    """Every error answer: what was wrong, where, and what to do."""

    code: str
    """Stable word for programs, for example `invalid_config`."""
    message: str
    details: tuple[str, ...] = ()
    """One line for each thing that was wrong, with the place of it."""
    hint: str | None = None
    """The next thing to do."""
