"""Attacks on environments whose tasks run in boxes of their own: a part of `table.ATTACKS`."""

from collections.abc import Mapping
from typing import Any

from tests.trust.attack import KEY, NO_SECRET, NO_SERVICE, Attack, Config, environment


def played(name: str, **config: Any) -> Config:
    return environment(name=name, config=config)


def judged(**model: Any) -> Config:
    return played(
        "inspect_ai", task="listed_tasks/sums", models={"grader": {"model": "x", **model}}
    )


def _attacks_on_tasks(name: str, **config: Any) -> dict[str, Attack]:
    """On what runs in a box."""
    seeing = Attack(
        lambda _: played(name, **config, box={"readable": ["/etc"]}),
        "readable /etc (not listed)",
    )
    return {f"environments.config.{name}.box.readable": seeing}


ATTACKS_ON_TASKS: Mapping[str, Attack] = {
    **_attacks_on_tasks("harbor", path="tasks"),
    **_attacks_on_tasks("inspect_ai", task="listed_tasks/sums"),
    "environments.config.harbor.path": Attack(
        lambda target: played("harbor", path=target.outside), "there is no such folder"
    ),
    "environments.config.harbor.agent": Attack(
        lambda _: played("harbor", path="tasks", agent="os:system"),
        "no agent that this env worker's operator allows",
    ),
    "environments.config.harbor.agent_config": Attack(
        lambda _: played("harbor", path="tasks", agent="terminus-2", agent_config={"x": 1}),
        "this env worker's operator allows none",
    ),
    "environments.config.inspect_ai.task": Attack(
        lambda target: played("inspect_ai", task=f"{target.outside}.py@x"),
        "allows tasks of installed packages alone",
    ),
    "environments.config.inspect_ai.models.url": Attack(
        lambda target: judged(url=target.listener), NO_SERVICE
    ),
    "environments.config.inspect_ai.models.key_variable": Attack(
        lambda target: judged(url=target.own, key_variable=KEY), NO_SECRET
    ),
}
