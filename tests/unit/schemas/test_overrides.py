"""Config files and overrides: YAML as people expect it, strict types, one sentence each mistake."""

from typing import Any, get_args

import pytest

from warren_schemas.config import AlgorithmConfig, CispoLoss, FullUpdate, PolicyLoss
from warren_schemas.config_files.overrides import (
    ConfigError,
    OverrideError,
    apply_overrides,
    load_config,
)
from warren_schemas.config_files.yaml_text import YamlError, parse_yaml

TEXT = """
name: first try
model: {base: tiny, update: {kind: lora, rank: 4}}
environments:
  - {name: guess, config: {high: 9}}
optimizer: {learning_rate: 1e-4}
"""
DATA: dict[str, Any] = {"a": 1, "b": {"c": "x"}, "d": [{"e": 1}], "f": None}
LOSSES = [loss.model_fields["kind"].default for loss in get_args(get_args(PolicyLoss)[0])]


def test_a_file_becomes_a_config() -> None:
    config = load_config(TEXT)
    assert config.name == "first try"
    assert config.optimizer.learning_rate == 1e-4
    assert config.environments[0].config == {"high": 9}


def test_a_config_as_json_reads_as_itself() -> None:
    """So what `runs show` prints can be saved and submitted again."""
    config = load_config(TEXT, ["optimizer.eps=1e-12", "seed=9223372036854775807"])
    assert load_config(config.model_dump_json()) == config


def test_overrides_go_on_top_in_order() -> None:
    config = load_config(
        TEXT,
        [
            "name=second",
            "model.update.rank=8",
            "model.update.rank=16",
            "environments.0.config.high=99",
            "environments.1.name=arithmetic",
            "evaluation.episodes=10",
            "sampling.stop=[a, 'b=c']",
            "limits.stop_at_reward=null",
        ],
    )
    assert config.name == "second"
    assert config.model.update.model_dump()["rank"] == 16
    assert [e.name for e in config.environments] == ["guess", "arithmetic"]
    assert config.environments[0].config == {"high": 99}
    assert config.evaluation is not None
    assert config.evaluation.episodes == 10
    assert config.sampling.stop == ("a", "b=c")


@pytest.mark.parametrize("kind", LOSSES)
def test_the_name_of_a_kind_stands_for_it(kind: str) -> None:
    text = TEXT + "algorithm: {loss: {kind: ppo, clip_low: 0.5}}\nsource: live\n"

    config = load_config(text, [f"algorithm.loss={kind}", "model.update=full"])

    assert config.algorithm == AlgorithmConfig.model_validate({"loss": {"kind": kind}})
    assert config.model.update == FullUpdate()


def test_a_kind_that_was_named_takes_keys() -> None:
    text = TEXT + "algorithm: {loss: cispo}\n"
    assert load_config(text, ["algorithm.loss.clip_high=3"]).algorithm.loss == CispoLoss(
        clip_high=3.0
    )


@pytest.mark.parametrize(
    ("override", "error"),
    [
        ("algorithm.loss=cipso", "'cipso'; did you mean cispo?"),
        ("source=recorded", "source: give either run"),
        ("algorithm.loss=3", "algorithm.loss: expected keys and values, got 3"),
    ],
)
def test_a_name_of_no_kind_is_told_of(override: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(TEXT, [override])
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("override", "after"),
    [
        ("a=2", DATA | {"a": 2}),
        ("b.c=1e-4", DATA | {"b": {"c": 1e-4}}),
        ("b.new.deep=true", DATA | {"b": {"c": "x", "new": {"deep": True}}}),
        ("f.g=no", DATA | {"f": {"g": "no"}}),
        ("d.0.e=null", DATA | {"d": [{"e": None}]}),
        ("d.1={e: 2}", DATA | {"d": [{"e": 1}, {"e": 2}]}),
        ("a=", DATA | {"a": None}),
        (" a = 'x' ", DATA | {"a": "x"}),
        ("a=@ann/x", DATA | {"a": "@ann/x"}),
    ],
)
def test_values_are_yaml(override: str, after: dict[str, Any]) -> None:
    assert apply_overrides(DATA, [override]) == after


def test_the_data_itself_stays_as_it_is() -> None:
    before = repr(DATA)
    apply_overrides(DATA, ["b.c=1", "d.0.e=5", "d.1=3", "f.x=1"])
    assert repr(DATA) == before


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("a", "'a': write KEY=VALUE, such as sampling.temperature=0.7"),
        ("=5", "'=5': write KEY=VALUE"),
        ("a..b=5", "'a..b=5': write KEY=VALUE"),
        ("a.x=5", "'a.x=5': a is 1 and has no keys below it"),
        ("b.c.x=5", "'b.c.x=5': b.c is 'x' and has no keys below it"),
        ("d.2.e=5", "'d.2.e=5': 2 is no entry of a list of 1; write 0 to 1"),
        ("d.e=5", "'d.e=5': e is no entry of a list of 1; write 0 to 1"),
        ("a=[1", "'a=[1': '[1' is not a YAML value: line 1"),
    ],
)
def test_a_bad_override_is_named_with_what_to_write(override: str, sentence: str) -> None:
    with pytest.raises(OverrideError) as caught:
        apply_overrides(DATA, [override])
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "overrides", "lines"),
    [
        ("", [], ["model: missing"]),
        ("- 1", [], ["a config consists of keys and values, such as `model: {base: NAME}`"]),
        ("a: b: c", [], ["line 1, column 5: mapping values are not allowed here"]),
        (TEXT, [f"seed={10**30}"], ["seed: expected a number of at most 9.22337e+18, got 1000000"]),
        (TEXT, ["seed='5'"], ["seed: expected a whole number, got '5'"]),
        (TEXT, ["seed=5.0"], ["seed: expected a whole number, got 5.0"]),
        (TEXT, ["name=5"], ["name: expected text, got 5 (quotes make it text)"]),
        (TEXT, ["seed=true"], ["seed: expected a whole number, got true"]),
        (TEXT, ["evaluation.before=yes"], ["evaluation.before: expected true or false, got 'yes'"]),
        (TEXT, ["sampling.top_p=.nan"], ["sampling.top_p: expected a finite number, got nan"]),
        (TEXT, ["seed"], ["'seed': write KEY=VALUE, such as sampling.temperature=0.7"]),
        (TEXT + "seed: 1\nseed: 2", [], ["line 8, column 1: the key seed is there twice"]),
        ("x: &x {y: *x}", [], ["a config is made of text, numbers and lists: Circular reference"]),
    ],
)
def test_mistakes_come_as_lines(text: str, overrides: list[str], lines: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(text, overrides)
    assert len(caught.value.lines) == len(lines)
    for told, line in zip(caught.value.lines, lines, strict=True):
        assert told.startswith(line)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1.", 1.0),
        (".5", 0.5),
        ("-12", -12),
        ("+1.5E+3", 1500.0),
        ("010", "010"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("no", "no"),
        ("on", "on"),
        ("True", True),
        ("2026-01-01", "2026-01-01"),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ("{<<: {a: 1}, b: 2}", {"a": 1, "b": 2}),
    ],
)
def test_yaml_reads_as_people_expect(text: str, value: object) -> None:
    parsed = parse_yaml(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    "text",
    ["[" * 2000, "!!python/object:os.system x", "{a: 1, a: 2}", "a: *b", "--- 1\n--- 2", "\x00"],
)
def test_what_is_no_yaml_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(YamlError):
        parse_yaml(text)
