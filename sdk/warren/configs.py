"""Configs as users have them: a `TrainConfig`, a plain dict, or a file in YAML or TOML."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import JsonValue, ValidationError

from warren.errors import ConfigurationError
from warren_schemas.config import RecordingFilter, TrainConfig
from warren_schemas.config_files.openreward.translation import HOSTED_URL, Refused, translated
from warren_schemas.config_files.overrides import (
    ConfigError,
    OverrideError,
    apply_overrides,
    load_config,
)
from warren_schemas.config_files.yaml_text import YamlError, parse_yaml
from warren_schemas.http import SetRun, SubmitRun
from warren_schemas.http.runs import OnDisconnect
from warren_schemas.text.explain import explain, nearest
from warren_schemas.text.shorthand import expanded

ConfigLike: TypeAlias = "TrainConfig | Mapping[str, object] | str | PathLike[str]"


def to_config(config: ConfigLike) -> TrainConfig:
    """The config itself, validated. Raises `ConfigurationError`, one line for each thing wrong."""
    if isinstance(config, TrainConfig):
        return config
    if isinstance(config, str | PathLike):
        return read_config(Path(config))
    try:
        return TrainConfig.model_validate(expanded(config, TrainConfig))
    except ValidationError as error:
        raise _invalid("The config", explain(error, TrainConfig)) from error


def changed_config(config: TrainConfig, overrides: Sequence[str]) -> TrainConfig:
    """The same with `a.b=c` on top, as if it were written so: defaults are left to follow. Raises
    `ConfigurationError`."""
    data = config.model_dump(mode="json", exclude_unset=True)
    try:
        written = expanded(apply_overrides(data, overrides), TrainConfig)
        return TrainConfig.model_validate_json(json.dumps(written, default=str), strict=True)
    except OverrideError as error:
        raise _invalid("The config", [str(error)]) from error
    except ValidationError as error:
        raise _invalid("The config", explain(error, TrainConfig)) from error


def read_config(path: Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """A file with `a.b=c` overrides on top: TOML where its name ends with `.toml`, else YAML.

    Raises `ConfigurationError`.
    """
    text = _read(path)
    try:
        return load_config(
            text, overrides, written_in="toml" if path.suffix.lower() == ".toml" else "yaml"
        )
    except ConfigError as error:
        raise _invalid(str(path), error.lines) from error


def read_openreward(
    path: Path, overrides: Sequence[str] = (), *, url: str | None = None
) -> tuple[TrainConfig, list[str]]:
    """A config of OpenReward's training example, for environments at `url`, with `a.b=c` overrides of ours
    on top; and one line for each thing that differs here. Raises `ConfigurationError`.
    """
    text = _read(path)
    try:
        found = translated(parse_yaml(text), url or HOSTED_URL)
        return load_config(json.dumps(found.config), overrides), found.told
    except (Refused, ConfigError) as error:
        raise _invalid(str(path), error.lines) from error
    except YamlError as error:
        raise _invalid(str(path), [str(error)]) from error


def read_changes(written: Sequence[str]) -> SetRun:
    """`limits.KEY=VALUE`, `priority=NUMBER` and `on_disconnect=detach`, as `warren runs set` takes them. Raises `ConfigurationError`."""
    try:
        data = expanded(apply_overrides({}, written), TrainConfig)
        return SetRun.model_validate_json(json.dumps(data, default=str), strict=True)
    except OverrideError as error:
        lines = [str(error)]
    except ValidationError as error:
        lines = explain(error, SetRun)
    raise ConfigurationError(
        "This can't be set", details=lines, hint="Write limits.steps=400, say, or priority=-10."
    )


def changes(
    *,
    priority: int | None,
    limits: Mapping[str, JsonValue] | None,
    on_disconnect: Literal["detach"] | None,
) -> SetRun:
    """Raises `ConfigurationError`."""
    try:
        return SetRun(priority=priority, limits=dict(limits or {}), on_disconnect=on_disconnect)
    except ValidationError as error:
        raise ConfigurationError("This can't be set", details=explain(error, SetRun)) from error


def submission(
    config: TrainConfig,
    *,
    idempotency_key: str,
    priority: int,
    on_disconnect: OnDisconnect,
    client_lease_s: float | None,
) -> SubmitRun:
    """Raises `ConfigurationError`."""
    try:
        return SubmitRun(
            config=config,
            idempotency_key=idempotency_key,
            priority=priority,
            on_disconnect=on_disconnect,
            client_lease_s=client_lease_s,
        )
    except ValidationError as error:
        raise ConfigurationError(
            "This run can't be submitted", details=explain(error, SubmitRun)
        ) from error


def to_filter(where: RecordingFilter | Mapping[str, object] | None) -> RecordingFilter:
    """The filter itself, validated; None admits everything. Raises `ConfigurationError`."""
    if isinstance(where, RecordingFilter):
        return where
    try:
        return RecordingFilter.model_validate(where or {})
    except ValidationError as error:
        raise _no_filter(explain(error, RecordingFilter)) from error


def read_filter(written: Sequence[str]) -> RecordingFilter:
    """`min_reward=0.5`, `environments=[guess]` and so on. Raises `ConfigurationError`."""
    try:
        data = apply_overrides({}, written)
        return RecordingFilter.model_validate_json(json.dumps(data, default=str), strict=True)
    except OverrideError as error:
        lines = [str(error)]
    except ValidationError as error:
        lines = explain(error, RecordingFilter)
    raise _no_filter(lines)


def _no_filter(lines: Sequence[str]) -> ConfigurationError:
    keys = ", ".join(RecordingFilter.model_fields)
    return ConfigurationError("This is no filter", details=lines, hint=f"Its keys are: {keys}.")


def _read(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"There is no file {path}", hint=_other_file(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise ConfigurationError(
            f"Can't read {path}: {reason}",
            hint="Give a YAML or TOML file; see examples/guess.yaml.",
        ) from error


def _other_file(path: Path) -> str:
    try:
        there = [p.name for p in path.parent.iterdir() if p.suffix in (".yaml", ".yml", ".toml")]
    except OSError:
        return f"The folder {path.parent} is not there either; check the path."
    match = nearest(path.name, there)
    if match:
        return f"Did you mean {path.parent / match}?"
    return "Check the path; examples/guess.yaml shows what a config looks like."


def _invalid(place: str, lines: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        f"{place} is no valid run config",
        details=lines,
        hint="Fix the mistakes above and try again; examples/guess.yaml is a commented config.",
    )
