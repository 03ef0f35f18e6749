"""Models besides the policy that an agent calls: a judge, a summariser, a frozen version.

Invariant: importing this module loads no web server.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OtherModel:
    """Where a model is that an agent calls beside the policy."""

    base_url: str
    """As clients of OpenAI's API take it: usually with `/v1` at its end."""
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None
    """What it is called there; None: as the agent calls it."""
