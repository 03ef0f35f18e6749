"""`text` of a config: what can't be, and what would have no effect, is refused with a sentence."""

from collections.abc import Mapping
from typing import Any

import pytest

from warren.environment import ConfigError, Context, Env
from warren_env_worker.environments.alfworld.environment import AlfWorld
from warren_env_worker.environments.gem.environment import Gem
from warren_env_worker.environments.gymnasium.environment import Gymnasium
from warren_env_worker.environments.text.settings import TextSettings
from warren_env_worker.environments.textarena.environment import TextArena
from warren_env_worker.environments.textworld.environment import TextWorld
from warren_env_worker.host.environment_class.config import ConfigSchema
from warren_env_worker.host.refusal import Refusal

NEEDED: Mapping[type[Env[Any]], Mapping[str, Any]] = {
    Gymnasium: {"env": "FrozenLake-v1"},
    TextArena: {"game": "GuessTheNumber-v0"},
    Gem: {"env": "game:GuessTheNumber-v0-easy"},
    TextWorld: {"challenge": "tw-simple"},
    AlfWorld: {},
}
LISTED = {"template": "{observation} {admissible}"}


def made(environment: type[Env[Any]], text: object, **config: object) -> Env[Any]:
    """Raises `Refusal`, `ConfigError`."""
    found = {**NEEDED[environment], **config, "text": text}
    return environment(**ConfigSchema(environment).check(found))


@pytest.mark.parametrize("environment", NEEDED)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ({"action": "lastline"}, "did you mean last_line?"),
        ({"tag": "a b"}, "text.tag: expected text that matches"),
        ({"tag": "move", "action": "boxed"}, "give one of them"),
        ({"pattern": "move"}, "text.pattern: expected one group, around the action"),
        ({"pattern": "(a)(b)"}, "text.pattern: expected one group"),
        ({"pattern": "(?=a)(b)"}, "text.pattern: no pattern of RE2's: "),
        ({"pattern": "(" * 201}, "text.pattern: "),
        ({"template": "{turn}"}, "template: expected {observation} in it"),
        ({"template": "{observation} {board}"}, "there is no field {board}; there are {obs"),
        ({"template": "{observation.__class__}"}, "there is no field {observation.__class__}"),
        ({"template": "{observation!r}"}, "there is no field"),
        ({"template": "{observation:>9}"}, "there is no field"),
        ({"template": "{observation"}, "a brace that is no field is doubled"),
        ({"given": "[]"}, "given: expected {action} in it"),
        ({"history": 2}, "give both, or none of them"),
        ({"template": "{observation} {history}"}, "give both, or none of them"),
        ({"invalid": {}}, "text.invalid: expected reward, most, or both"),
        ({"wrapper": "x"}, "text.wrapper: unknown key"),
    ],
)
def test_what_can_not_be(environment: type[Env[Any]], text: object, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        made(environment, text)
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("environment", "text", "reason"),
    [
        (Gymnasium, {"given": "[{action}]"}, "text.given: gymnasium takes no words"),
        (TextWorld, {"given": "[{action}]"}, "takes no words, but its own commands"),
        (TextArena, {"invalid": {"most": 3}}, "text.invalid: textarena takes all words"),
        (Gem, {"action": "whole", "invalid": {"most": 3}}, "text.invalid: gem takes all words"),
        (Gem, LISTED, "text.template: gem does not tell what is {admissible}"),
    ],
)
def test_what_would_have_no_effect(environment: type[Env[Any]], text: object, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        made(environment, text)
    assert reason in str(refused.value)


@pytest.mark.parametrize("environment", [TextWorld, AlfWorld])
def test_commands_are_listed_in_one_place(environment: type[Env[Any]]) -> None:
    for text in (LISTED, {"template": "{observation}"}):
        with pytest.raises(ConfigError, match="list_commands: a template shows them"):
            made(environment, text, list_commands=True)


def test_the_prompt_says_how_to_act_in_the_form_that_is_read() -> None:
    assert (
        AlfWorld()
        .how()
        .startswith(
            "You do a household task in a room, by commands. Say one command in each turn,"
            " as <action>COMMAND</action>. The commands are:\nlook\n"
        )
    )
    assert TextWorld("tw-simple", text=TextSettings(action="boxed")).system_prompt() == (
        "You play a text adventure. Say one command in each turn, as \\boxed{COMMAND}."
    )
    assert TextArena("A").system_prompt() is None
    assert Gem("game:A", system_prompt="Play.").system_prompt() == "Play."
    tagged = Gem("game:A", system_prompt="Play.", text=TextSettings(tag="move"))
    assert tagged.system_prompt() == (
        "Play.\n\nSay one action in each turn, as <move>ACTION</move>."
    )
    assert TextArena("A", text=TextSettings(pattern="(a)")).system_prompt() is None


def test_a_game_that_takes_words_gets_the_action_in_its_own_form() -> None:
    tagged = TextSettings(tag="move")
    assert TextArena("A").read("[5]") == "[5]"
    assert TextArena("A", text=tagged).read("5") == "[5]"
    assert Gem("game:A", text=tagged).read("{5}") == "\\boxed{{5}}"
    chosen = TextSettings(given="{{{action}}}!")
    assert Gem("game:A", text=chosen).read("5") == "{5}!"


def test_what_a_game_is_made_of_is_its_own_settings() -> None:
    text = TextSettings(tag="move")
    world = TextWorld(
        "tw-simple", {"goal": "brief"}, {"test": {"goal": "none"}}, text=text, games=3
    )
    lake = Gymnasium("FrozenLake-v1", {"is_slippery": False}, ("a", "b", "c", "d"), text=text)
    ctx = Context.derive(1, "test", 2, 0)
    assert world.made(2, ctx)["settings"] == {"goal": "none"}
    assert lake.made(None, ctx) == {
        "env": "FrozenLake-v1",
        "arguments": {"is_slippery": False},
        "seed": ctx.seed,
        "names": ["a", "b", "c", "d"],
    }
