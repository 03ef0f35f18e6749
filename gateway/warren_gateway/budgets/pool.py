"""All budgets of one gateway."""

from warren_gateway.budgets.budget import Budget
from warren_gateway.budgets.dead_letters import DeadLetterQuota
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.budgets.request_rate import RequestRate
from warren_gateway.budgets.wrong_keys import WrongKeys
from warren_schemas.users.budgets import BudgetView

DEFAULTS = BudgetOptions()
ASKED_KIB_PER_OWNER, ASKED_KIB = 512 * 1024, 1024 * 1024
"""Of questions whose answers are fetched later: each counts once for every answer."""


class Budgets:
    def __init__(self, options: BudgetOptions = DEFAULTS) -> None:
        self.requests = RequestRate(
            per_s=options.requests_per_s_per_owner, burst=options.request_burst_per_owner
        )
        self.wrong_keys = WrongKeys(
            per_s=options.wrong_keys_per_s_per_address, burst=options.wrong_key_burst_per_address
        )
        self.streams = Budget(
            "open streams", per_owner=options.streams_per_owner, total=options.streams
        )
        self.answers = Budget(
            "pending answers", per_owner=options.answers_per_owner, total=options.answers
        )
        self.asked = Budget(
            "KiB of questions to samplers", per_owner=ASKED_KIB_PER_OWNER, total=ASKED_KIB
        )
        self.env_workers = Budget(
            "remote env workers", per_owner=options.env_workers_per_owner, total=options.env_workers
        )
        self.env_queues = Budget(
            "queues of remote env workers",
            per_owner=options.env_queues_per_owner,
            total=options.env_queues,
        )
        self.dead_letters = DeadLetterQuota(
            per_owner=options.dead_letters_per_owner,
            mib_per_owner=options.dead_letter_mib_per_owner,
        )

    def views(
        self, owner: str, requests_per_s: float | None = None, address: str | None = None
    ) -> tuple[BudgetView, ...]:
        """Each, as this owner may see it; `requests_per_s` is the owner's own rate."""
        budgets = self.streams, self.answers, self.asked, self.env_workers, self.env_queues
        views = (budget.view(owner) for budget in budgets)
        requests = self.requests.view("requests", owner, requests_per_s)
        wrong_keys = self.wrong_keys.view(address)
        return (*views, requests, wrong_keys, *self.dead_letters.views(owner))
