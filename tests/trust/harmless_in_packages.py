"""Fields of environments of foreign packages that name nothing, with a word on why: a part of `table.HARMLESS`."""

from collections.abc import Mapping

SHOWN = "shown to the policy or to its owner, and to nobody else"
_TEXT: Mapping[str, str] = {
    "tag": "compared with what the policy said",
    "pattern": "compared with what the policy said, by RE2, in time proportional to it",
    "given": "said to the game, which gets what the policy says anyway",
    "template": SHOWN,
}
"""Of `text`, in each of the environments that have it."""
HARMLESS_IN_PACKAGES: Mapping[str, str] = {
    "environments.config.gem.env": "an id in the package's registry; families that read files or run code are refused",
    "environments.config.gem.arguments": "of the constructor that is registered; none of them names a file",
    "environments.config.gymnasium.env": "an id in the package's registry; module:Name is refused",
    "environments.config.gymnasium.arguments": "of the constructor that is registered; those that load files are not installed",
    "environments.config.gymnasium.actions": "compared with what the policy said",
    "environments.config.textarena.game": "an id in the package's registry; module:Name is refused",
    "environments.config.textarena.arguments": "of the constructor that is registered",
    "environments.config.textworld.challenge": "a name among those of the package",
    "environments.config.textworld.settings": "of the challenge: numbers, switches and choices, none of which names a file",
    "environments.config.textworld.split_settings": "as settings",
    "environments.config.verifiers.taskset": "one that the operator lists: tests/trust/test_verifiers.py",
    "environments.config.verifiers.arguments": "of a taskset that the operator lists; only numbers and texts",
    "environments.config.verifiers.split_arguments": "of a taskset that the operator lists; only numbers and texts",
    "environments.config.verifiers_v0.taskset": "as verifiers.taskset: it is the same class",
    "environments.config.verifiers_v0.arguments": "as verifiers.arguments: it is the same class",
    "environments.config.verifiers_v0.split_arguments": "as verifiers.split_arguments: it is the same class",
    "environments.config.harbor.reward": "compared with the names of the tests' rewards",
    "environments.config.inspect_ai.arguments": "of a task that the operator lists; only numbers and texts",
    "environments.config.inspect_ai.split_arguments": "of a task that the operator lists; only numbers and texts",
    "environments.config.inspect_ai.weights": "compared with the names of the scores",
    "environments.config.inspect_ai.models": "names of the task's roles: letters, digits, _ and -",
    "environments.config.inspect_ai.models.model": "sent to the owner's service, which the operator lists, as it is",
    **{
        f"environments.config.{name}.variables": "names of the run's secrets: test_secrets.py in tests/ecosystems"
        for name in ("verifiers", "verifiers_v0", "harbor", "inspect_ai")
    },
    **{
        f"environments.config.{name}.text.{key}": why
        for name in ("alfworld", "gem", "gymnasium", "textarena", "textworld")
        for key, why in _TEXT.items()
    },
}
