"""What the policy is shown in each turn, as a config has it rendered."""

from hypothesis import given
from hypothesis import strategies as st

from warren_env_worker.environments.text.screen import Screen
from warren_env_worker.environments.text.settings import TextSettings
from warren_env_worker.environments.text.templates import Template


def test_without_settings_the_words_are_the_game_s_own() -> None:
    screen = Screen(TextSettings())
    assert screen.show("a room", ["go"]) == "a room"
    screen.note("go")
    assert screen.show_refusal("no", None) == "no"
    assert screen.end("won", ["go"]) == "won"
    assert screen.after is None


def test_commands_are_listed_behind_the_words_where_there_are_any() -> None:
    screen = Screen(TextSettings(), lists=True)
    assert screen.show("a room", ["look", "go"]) == "a room\n\nCommands: look, go"
    assert screen.show_refusal("no", None) == "no"
    assert screen.end("won", []) == "won"


def test_a_template_is_filled_in_each_turn_but_the_last() -> None:
    text = TextSettings(template="{{{turn}}} {first} | {observation} | {admissible}")
    screen = Screen(text)
    assert screen.show("a room", ["look", "go"]) == "{1} a room | a room | look, go"
    screen.note("jump")
    assert screen.show_refusal("no", None) == "{2} a room | no | look, go"
    screen.note("go")
    assert screen.show("a hall", ["look"]) == "{3} a room | a hall | look"
    assert screen.end("won", None) == "won"


def test_a_history_holds_the_turns_before_and_shows_the_game_again_after_a_refusal() -> None:
    screen = Screen(TextSettings(template="{history}\n{observation}", history=2))
    assert screen.after == 0
    assert screen.show("one", None) == "(none)\none"
    screen.note("a")
    assert screen.show("two", None) == "[1] one\n[1] > a\ntwo"
    screen.note(None)
    assert screen.show_refusal("no", None) == ("[1] one\n[1] > a\n[2] two\n[2] > (none)\nno\n\ntwo")
    screen.note("b")
    assert screen.show("three", None) == ("[2] two\n[2] > (none)\n[3] two\n[3] > b\nthree")


@given(st.text(), st.text(), st.text())
def test_a_value_is_never_read_as_a_template(before: str, value: str, after: str) -> None:
    texts = [text.replace("{", "{{").replace("}", "}}") for text in (before, after)]
    template = Template(f"{texts[0]}{{action}}{texts[1]}", ("action",), needs="action")
    assert template.filled({"action": value}) == f"{before}{value}{after}"
