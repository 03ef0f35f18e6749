"""Evaluations of what is recorded: the keys that have an effect on one. All others are refused.

Nothing is sampled and nothing is trained; what is left is what is evaluated, how it is scored, and where it is recorded anew.
"""

from collections.abc import Iterator

from pydantic import BaseModel

_ANY = "*"
"""Stands for the number of an environment."""
_ALWAYS = frozenset(
    {
        "name",
        "model.base",
        "environments.*.name",
        "source.run",
        "source.dataset",
        "source.split",
        "source.from_archive",
        "source.from_offset",
        "source.from_s",
        "source.also_runs",
        "source.where",
        "source.rewards",
        "retention",
        "limits.steps",
        "limits.stalled_after_s",
        "limits.wait_s",
    }
)
_SCORED = frozenset(
    {
        "environments.*.workers",
        "environments.*.config",
        "environments.*.secrets",
        "environments.*.reward_reduction",
        "environments.*.nonterminal_reward",
        "environments.*.min_reward",
        "environments.*.max_reward",
        "environments.*.episode_s",
        "environments.*.episode_attempts",
        "environments.*.max_in_flight",
        "limits.episode_s",
        "limits.in_flight",
        "limits.episode_attempts",
        "limits.failed_groups",
        "secrets",
    }
)
"""What env workers need, and by what they give rewards."""


def without_effect(config: BaseModel, *, is_scored: bool) -> list[str]:
    """Paths of what says something else than its default, and has no effect."""
    used = _ALWAYS | _SCORED if is_scored else _ALWAYS
    return [path for path, place in _given(config) if not _is_used(place, used)]


def not_of_recorded(config: BaseModel, *, is_scored: bool) -> Iterator[str]:
    """Why it is no config of such an evaluation."""
    keys = without_effect(config, is_scored=is_scored)
    of_scoring = [key for key in keys if key not in without_effect(config, is_scored=True)]
    if others := [key for key in keys if key not in of_scoring]:
        yield (
            f"{', '.join(others)}: no effect where recorded episodes are evaluated, for nothing is sampled or trained;"
            " leave out"
        )
    if of_scoring:
        yield (
            f"{', '.join(of_scoring)}: no effect where recorded episodes keep the rewards that they have; leave out, or"
            " have them scored anew (source.rewards: scored)"
        )


def _is_used(place: str, used: frozenset[str]) -> bool:
    parts = place.split(".")
    return any(".".join(parts[:n]) in used for n in range(1, len(parts) + 1))


def _given(section: BaseModel, path: str = "", place: str = "") -> Iterator[tuple[str, str]]:
    """Paths of what is not the default; `place` is the same for every environment."""
    for key, field in type(section).model_fields.items():
        value, default = getattr(section, key), field.get_default(call_default_factory=True)
        at, where = f"{path}{key}", f"{place}{key}"
        if value == default:
            continue
        if key == "environments" and not path:
            environments: tuple[BaseModel, ...] = value
            for number, each in enumerate(environments):
                yield from _given(each, f"{at}.{number}.", f"{where}.{_ANY}.")
        elif isinstance(value, BaseModel) and not _is_chosen(key, value, default):
            yield from _given(value, f"{at}.", f"{where}.")
        else:
            yield at, where


def _is_chosen(key: str, value: BaseModel, default: object) -> bool:
    """Where that it is there at all, or its kind, says something; a source and an evaluation are always there."""
    is_other = isinstance(default, BaseModel) and type(default) is not type(value)
    return key not in ("source", "evaluation") and (default is None or is_other)
