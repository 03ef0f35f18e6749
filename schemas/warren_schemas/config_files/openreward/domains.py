"""Where OpenReward's server lets the secrets of a session go, as its own client (0.1.167) says it.

Its client gives each session the API key as two secrets besides those of the config.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

HOME = "openreward.ai"
KEY_SECRETS = ("api_key", "OPENREWARD_API_KEY")
_SERVICES = (f"api.{HOME}", f"search.{HOME}")
_GOOGLE = ("generativelanguage.googleapis.com",)
_HUGGINGFACE = ("huggingface.co", "api-inference.huggingface.co")
_KAGGLE = ("www.kaggle.com",)
_WELL_KNOWN: dict[str, tuple[str, ...]] = {
    "OPENAI_API_KEY": ("api.openai.com",),
    "ANTHROPIC_API_KEY": ("api.anthropic.com",),
    "GEMINI_API_KEY": _GOOGLE,
    "TAVILY_API_KEY": ("api.tavily.com",),
    "GOOGLE_API_KEY": _GOOGLE,
    "COHERE_API_KEY": ("api.cohere.com",),
    "MISTRAL_API_KEY": ("api.mistral.ai",),
    "GROQ_API_KEY": ("api.groq.com",),
    "TOGETHER_API_KEY": ("api.together.xyz",),
    "REPLICATE_API_TOKEN": ("api.replicate.com",),
    "HUGGINGFACE_API_KEY": _HUGGINGFACE[::-1],
    "HF_TOKEN": _HUGGINGFACE,
    "HUGGING_FACE_HUB_TOKEN": _HUGGINGFACE,
    "PERPLEXITY_API_KEY": ("api.perplexity.ai",),
    "FIREWORKS_API_KEY": ("api.fireworks.ai",),
    "DEEPSEEK_API_KEY": ("api.deepseek.com",),
    "KAGGLE_KEY": _KAGGLE,
    "KAGGLE_USERNAME": _KAGGLE,
    "KAGGLE_API_KEY": _KAGGLE,
    "E2B_API_KEY": ("api.e2b.app",),
    "MODAL_TOKEN_ID": ("api.modal.com",),
    "MODAL_TOKEN_SECRET": ("api.modal.com",),
    "DAYTONA_API_KEY": ("app.daytona.io",),
    "GH_AUTH_TOKEN": (
        "github.com",
        "api.github.com",
        "uploads.github.com",
        "objects.githubusercontent.com",
        "raw.githubusercontent.com",
    ),
}


def is_openrewards(url: str) -> bool:
    """Whether OpenReward itself answers there, so that its key may be sent."""
    parts = urlsplit(url)
    return parts.scheme == "https" and (parts.hostname or "").endswith(f".{HOME}")


def domains(url: str, secrets: Iterable[str]) -> dict[str, list[str]]:
    """By the secret's name; none of one that is not well-known."""
    found = {name: _WELL_KNOWN.get(name.upper()) for name in secrets}
    known = {name: list(hosts) for name, hosts in found.items() if hosts is not None}
    return known | {name: _of_key(url) for name in KEY_SECRETS}


def _of_key(url: str) -> list[str]:
    """OpenReward's own hosts, each by its name within its cluster, too."""
    hosts = list(dict.fromkeys((urlsplit(url).hostname or "", *_SERVICES)))
    return [*hosts, *(f"{host.partition('.')[0]}.openreward.internal" for host in hosts)]
