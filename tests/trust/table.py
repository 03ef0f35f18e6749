"""For each field that takes a text: what a hostile tenant writes there, and how it is refused.

A field that names nothing has a word on why in `HARMLESS`. Every field is in exactly one of the two; where one names several
things, a word in brackets after it tells them apart.
"""

from collections.abc import Mapping
from typing import Any

from tests.trust.attack import (
    KEY,
    NO_COMMAND,
    NO_FILE,
    NO_FUNCTION,
    NO_SECRET,
    NO_SERVICE,
    Attack,
    Config,
    base,
    environment,
)
from tests.trust.attacks_on_tasks import ATTACKS_ON_TASKS
from tests.trust.harmless_in_packages import HARMLESS_IN_PACKAGES, SHOWN

OF_A_REPLAY: Config = {"sampling": {}, "limits": {"steps": 1}}
"""In place of what has no effect on one."""


def at_gateway(refusal: str, **changes: Any) -> Attack:
    return Attack(lambda _: base(**changes), refusal, is_submitted=False)


def math(name: str, **config: Any) -> Config:
    needed: Config = {"servers": {}} if name == "mcp" else {}
    return environment(name=name, config={"path": "in.jsonl", **needed, **config})


def rewarded(**reward: Any) -> Config:
    return environment(name="echo", rewards=[reward])


def served(url: str, name: str = "vault", **config: Any) -> Config:
    return environment(name="ors", config={"url": url, "environment": name, **config})


def opened(name: str, url: str, **config: Any) -> Config:
    return environment(name=name, config={"url": url, **config})


def with_tools(path: str = "in.jsonl", **server: Any) -> Config:
    return environment(name="mcp", config={"servers": {"theirs": server}, "path": path})


def boxed(**sandbox: Any) -> Config:
    return math("math_python", sandbox=sandbox)


def _attacks_on(name: str) -> dict[str, Attack]:
    """On what `math` and those that are built on it have in common."""
    at = f"environments.config.{name}"
    return {f"{at}.path": Attack(lambda target: math(name, path=target.outside), NO_FILE)}


def _attacks_behind(name: str, *, has_rows: bool = False) -> dict[str, Attack]:
    """On an environment at a server, whose tasks are rows of a file or the server's own."""
    at = f"environments.config.{name}"
    attacks = {
        f"{at}.url": Attack(lambda target: opened(name, target.listener), NO_SERVICE),
        f"{at}.key_variable": Attack(
            lambda target: opened(name, target.own, key_variable=KEY), NO_SECRET
        ),
    }
    if has_rows:
        with_path = Attack(lambda t: opened(name, t.own, path=t.outside), NO_FILE)
        attacks[f"{at}.path"] = with_path
    return attacks


ATTACKS: Mapping[str, Attack] = {
    "model.base": at_gateway("model.base", model={"base": "../../etc/passwd"}),
    "model.update.start_adapter": at_gateway(
        "start_adapter",
        model={"base": "warren/tiny", "update": {"kind": "lora", "start_adapter": "../../x"}},
    ),
    "environments.name": at_gateway("Warren's own", environments=[{"name": "warren/chat"}]),
    "environments.split": at_gateway(
        "environments.0.split",
        environments=[{"name": "math", "config": {"path": "{split}.jsonl"}, "split": "../outside"}],
    ),
    "environments.evaluation_split": at_gateway(
        "evaluation_split",
        environments=[
            {"name": "echo", "evaluation_split": "x\n2026-11-23T00:00:00Z root: \x1b[31mforged"}
        ],
    ),
    "environments.rewards.function": Attack(
        lambda _: rewarded(kind="function", function="os:environ.copy"), NO_FUNCTION
    ),
    "environments.rewards.url": Attack(
        lambda target: rewarded(kind="service", url=target.listener), NO_SERVICE
    ),
    "environments.rewards.key_variable": Attack(
        lambda target: rewarded(kind="service", key_variable=KEY, url=target.own), NO_SECRET
    ),
    "environments.dataset": at_gateway(
        "no data set", environments=[{"name": "echo", "dataset": "local/theirs"}]
    ),
    "sft.dataset": at_gateway("no data set", sft={"dataset": "local/theirs"}),
    "sft.evaluation_split": at_gateway(
        "sft.evaluation_split", sft={"dataset": "mine", "evaluation_split": "../outside"}
    ),
    "sft.split": at_gateway("sft.split", sft={"dataset": "mine", "split": "../outside"}),
    "environments.secrets": Attack(lambda _: environment(secrets=["JUDGE"]), "none of this name"),
    "secrets": Attack(lambda _: base(secrets=["JUDGE"]), "none of this name"),
    "resume_from.run": Attack(
        lambda target: base(resume_from={"run": target.run}), "no run", is_submitted=False
    ),
    "resume_from.checkpoint": at_gateway(
        "checkpoint", resume_from={"run": "run_1", "checkpoint": "../../x"}
    ),
    "source.also_runs": Attack(
        lambda target: base(
            source={"kind": "recorded", "run": "last", "also_runs": [target.run]}, **OF_A_REPLAY
        ),
        "no run",
        is_submitted=False,
    ),
    "source.dataset": at_gateway(
        "no data set", source={"kind": "recorded", "dataset": "local/theirs"}, **OF_A_REPLAY
    ),
    "source.split": at_gateway(
        "source.split",
        source={"kind": "recorded", "dataset": "mine", "split": "../outside"},
        **OF_A_REPLAY,
    ),
    "source.run": Attack(
        lambda target: base(source={"kind": "recorded", "run": target.run}, **OF_A_REPLAY),
        "no run",
        is_submitted=False,
    ),
    **_attacks_on("math"),
    **_attacks_on("math_python"),
    **_attacks_on("mcp"),
    "environments.config.mcp.path": Attack(
        lambda target: with_tools(target.outside, kind="http", url=target.own), NO_FILE
    ),
    "environments.config.math_python.sandbox.url": Attack(
        lambda target: boxed(tier="http", url=target.judge), NO_SERVICE
    ),
    "environments.config.math_python.sandbox.key_variable": Attack(
        lambda target: boxed(tier="http", url=target.own, key_variable=KEY), NO_SECRET
    ),
    "environments.config.math_python.sandbox.image": Attack(
        lambda _: boxed(image="theirs:latest"), "image: theirs:latest is not allowed"
    ),
    "environments.config.math_python.sandbox.python": Attack(
        lambda _: boxed(tier="landlock", python="/bin/sh"), "python: /bin/sh is not one"
    ),
    "environments.config.math_python.sandbox.python (in an image)": Attack(
        lambda _: boxed(image="python:3.12", python='["/bin/sh", "-c", "id"]'),
        "python: with an image, the plain name or path",
    ),
    "environments.config.math_python.sandbox.libraries": Attack(
        lambda _: boxed(libraries="/etc"), "libraries: /etc is not one"
    ),
    "environments.config.ors.url": Attack(lambda target: served(target.listener), NO_SERVICE),
    "environments.config.ors.environment": Attack(
        lambda target: served(target.own, "../admin"), "as the server lists its environments"
    ),
    "environments.config.ors.key_variable": Attack(
        lambda target: served(target.own, key_variable=KEY), NO_SECRET
    ),
    "environments.config.ors.secrets": Attack(
        lambda target: served(target.own, secrets={"TOKEN": KEY}), NO_SECRET
    ),
    "environments.config.ors.secret_domains": Attack(
        lambda target: served(
            target.own, secrets={"TOKEN": KEY}, secret_domains={"TOKEN": ["elsewhere.example.org"]}
        ),
        NO_SERVICE,
    ),
    "environments.config.android_world.servers": Attack(
        lambda target: environment(
            name="android_world", config={"servers": [target.own, target.listener]}
        ),
        NO_SERVICE,
    ),
    "environments.config.android_world.key_variable": Attack(
        lambda target: environment(
            name="android_world", config={"servers": [target.own], "key_variable": KEY}
        ),
        NO_SECRET,
    ),
    **_attacks_behind("http"),
    **_attacks_behind("openenv"),
    "environments.config.openenv.tasks_of": Attack(
        lambda target: opened("openenv", target.own, tasks_of="../admin"), "as the server lists it"
    ),
    **_attacks_behind("nemo_gym", has_rows=True),
    **_attacks_behind("nemo_gymnasium", has_rows=True),
    "environments.config.mcp.servers.url": Attack(
        lambda target: with_tools(kind="http", url=target.listener), NO_SERVICE
    ),
    "environments.config.mcp.servers.key_variable": Attack(
        lambda target: with_tools(kind="http", url=target.own, key_variable=KEY), NO_SECRET
    ),
    "environments.config.mcp.servers.headers": Attack(
        lambda target: with_tools(kind="http", url=target.own, headers={"X-Key": KEY}), NO_SECRET
    ),
    "environments.config.mcp.servers.command": Attack(
        lambda _: with_tools(kind="stdio", command=["/bin/sh", "-c", "id"]), NO_COMMAND
    ),
    **ATTACKS_ON_TASKS,
    "environments.config.arithmetic.path": Attack(
        lambda target: environment(name="arithmetic", config={"path": target.outside}), NO_FILE
    ),
}

_PACKAGES = "warren_env_worker.environments"
HOSTED = (
    f"mcp={_PACKAGES}.mcp.environment:Mcp",
    f"harbor={_PACKAGES}.harbor.environment:Harbor",
    f"inspect_ai={_PACKAGES}.inspect_ai.environment:InspectAi",
)
"""Hosted where their packages are not installed: what is attacked is refused before those are wanted."""

CODE = "runs in a sandbox alone: tests/process/env_worker/test_uploaded_rewards.py"
ASKED = "sent to the owner's judge, which the operator lists, as it is"
HARMLESS: Mapping[str, str] = {
    "name": SHOWN,
    "sampling.stop": "held against what the policy said",
    "environments.sampling.stop": "held against what the policy said",
    "environments.splits.task_ids": "compared with the ids of the environment's tasks",
    "environments.splits": "its keys are names of splits, of plain characters, that only `split` brings into use",
    "environments.rewards.name": "the name of a metric",
    "environments.rewards.code": CODE,
    "environments.rewards.model": ASKED,
    "environments.rewards.prompt": ASKED,
    "environments.rewards.system": ASKED,
    "environments.rewards.score.after": "looked for in what the judge said",
    "environments.rewards.score.field": "looked for in what the judge said",
    "environments.config": "the environment's own keys: see those of each",
    "model.update.targets": "names of layers of the model, compared with those that it has",
    "model.update.exclude": "names of layers of the model, compared with those that it has",
    "environments.config.math.instruction": SHOWN,
    "environments.config.arithmetic.system_prompt": SHOWN,
    "environments.config.math.system_prompt": SHOWN,
    "environments.config.math_python.instruction": SHOWN,
    "environments.config.math_python.system_prompt": SHOWN,
    "environments.config.ors.system_prompt": SHOWN,
    "environments.config.prompts.system_prompt": SHOWN,
    "environments.config.ors.ids": "compared with the ids of the server's tasks",
    "environments.config.alfworld.system_prompt": SHOWN,
    "environments.config.android_world.task_types": "sent to the owner's servers, which the operator lists, in a query",
    "environments.config.android_world.task_family": "as android_world.task_types",
    "environments.config.android_world.system_prompt": SHOWN,
    "environments.config.gem.system_prompt": SHOWN,
    "environments.config.gymnasium.system_prompt": SHOWN,
    "environments.config.textarena.system_prompt": SHOWN,
    "environments.config.textworld.system_prompt": SHOWN,
    "environments.config.http.config": "sent to the owner's server, which the operator lists, as it is",
    "environments.config.openenv.reset": "sent to the owner's server, which the operator lists, as it is",
    "environments.config.openenv.shown": "compared with the names of what the server answers",
    "environments.config.openenv.action_field": "compared with the names of the server's schema",
    "environments.config.openenv.action_tool": SHOWN,
    "environments.config.openenv.system_prompt": SHOWN,
    "environments.config.nemo_gym.system_prompt": SHOWN,
    "environments.config.nemo_gymnasium.system_prompt": SHOWN,
    "environments.config.mcp.instruction": SHOWN,
    "environments.config.mcp.system_prompt": SHOWN,
    "environments.config.mcp.servers": "names of servers in the same config: letters, digits and -",
    "environments.config.mcp.servers.tools": "compared with the names of the server's tools",
    "environments.config.mcp.servers.variables": "names of the run's secrets: tests/ecosystems/mcp",
    **HARMLESS_IN_PACKAGES,
    "source.where.environments": "names of environments, compared with those of the recording",
    "source.where.categories": "names of categories, compared with those of the recording",
    "environments.config.echo.letters": SHOWN,
    "environments.config.reasoning_gym.dataset": "a generator by its name in the package's registry",
    "environments.config.reasoning_gym.options": "numbers and choices of a generator",
}
