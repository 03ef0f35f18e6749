"""Configs as keys and values, as `warren config show` and `diff` have them."""

from warren_schemas.config_files.keys import ConfigKey, differences, keys_of
from warren_schemas.config_files.overrides import load_config

TEXT = """
model: {base: warren/tiny}
environments: [{name: guess, config: {high: 9}}]
sampling: {max_tokens: 32}
algorithm: {loss: cispo, group_size: 8}
"""


def keys(text: str = TEXT, *overrides: str) -> dict[str, ConfigKey]:
    return {key.path: key for key in keys_of(load_config(text, overrides))}


def test_every_key_says_whether_it_was_written() -> None:
    found = keys()
    assert found["model.base"] == ConfigKey("model.base", "warren/tiny", True, False)
    assert found["environments.0.config.high"].value == 9
    assert found["sampling.max_tokens"].is_set
    assert not found["sampling.temperature"].is_set and found["sampling.temperature"].is_default
    assert found["algorithm.loss.kind"].value == "cispo"
    assert found["seed"].is_default and not found["seed"].is_set
    assert not found["algorithm.loss.kind"].is_default
    assert found["model.update.kind"].is_default
    full = keys(TEXT, "model.update.kind=full")
    assert full["model.update.kind"].value == "full" and not full["model.update.kind"].is_default
    written = keys(TEXT, f"sampling.temperature={found['sampling.temperature'].value}")
    assert written["sampling.temperature"].is_set and written["sampling.temperature"].is_default


def test_keys_are_those_that_set_takes() -> None:
    sections = ("environments", "sampling", "optimizer", "limits", "seed")
    numbers = {path: key.value for path, key in keys().items() if isinstance(key.value, float)}
    chosen = {path: n for path, n in numbers.items() if path.partition(".")[0] in sections}
    assert len(chosen) > 5
    written = keys(TEXT, *(f"{path}={value}" for path, value in chosen.items()))
    assert {path: written[path].value for path in chosen} == chosen
    assert all(written[path].is_set for path in chosen)


def test_only_what_differs_is_a_difference() -> None:
    a, b = load_config(TEXT), load_config(TEXT, ["seed=5", "environments.0.config.low=2"])
    found = {each.path: (each.a, each.b) for each in differences(a, b)}
    assert found == {"seed": (0, 5), "environments.0.config.low": (None, 2)}
    assert differences(a, load_config(TEXT, [f"seed={a.seed}"])) == []
