"""What users share of a gateway, as one of them sees it."""

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt


class BudgetView(Frozen):
    """How much of something that users share is in use at this gateway."""

    name: str
    used: NonNegativeInt
    """By you."""
    limit: NonNegativeInt
    """That you may have."""
    total_used: NonNegativeInt
    """By all users."""
    total_limit: NonNegativeInt | None
    """None where there is a limit for each alone."""
    n_refused: NonNegativeInt
    """How often you were refused since the gateway started."""


class BudgetList(Frozen):
    budgets: tuple[BudgetView, ...]
