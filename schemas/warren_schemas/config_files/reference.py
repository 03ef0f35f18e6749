"""The reference of all config keys, written from the schemas themselves.

`python -m warren_schemas.config_files.reference > docs/configuration.md` brings the page up to date; a test
compares the two.
"""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from warren_schemas.base import Frozen
from warren_schemas.config import TrainConfig
from warren_schemas.fields.meanings import meanings

HEAD = """# Configuration

Every key of a run's config, in YAML for `warren train`, as a dict or a `TrainConfig` for the SDK. Any key can be set
from the command line: `warren train run.yaml --set optimizer.learning_rate=3e-4 --set environments.0.config.high=99`.
Where there are several kinds, the name of one stands for it with its defaults: `loss: cispo` is `loss: {kind: cispo}`.
Defaults are written as in YAML; those of a section are in a table of its own (*below*).
An unknown key is an error that names the nearest valid one, and [what each setting changes](settings-effects.md) is shown by a
test. This page is written from the schemas
(`python -m warren_schemas.config_files.reference`).

The smallest config names a model and an environment; only fine-tuning on a data set alone needs no environment:

```yaml
model: {base: warren/tiny}
environments:
  - name: guess
```

These `limits` are the run's. How long a call of an environment may take is set in its class: `limits = Limits(step_s=120)`
([environments](environments.md#rules-for-environments)).
"""


def config_reference() -> str:
    """The page, as Markdown."""
    return "\n".join([HEAD, *_section("", TrainConfig), ""])


def _section(path: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"## {path or 'The run'}"
    yield ""
    if about := _about(model):
        yield from (about, "")
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for name, field in model.model_fields.items():
        yield f"| `{name}` | {_default(field)} | {_meaning(model, name)} |"
    yield ""
    for name, field in model.model_fields.items():
        for below in _models(field.annotation):
            yield from _section(_title(path, name, field, below), below)


def _title(path: str, name: str, field: FieldInfo, below: type[BaseModel]) -> str:
    title = f"{path}.{name}" if path else name
    title += ".NAME" if get_origin(field.annotation) is dict else ""
    kind = below.model_fields.get("kind")
    return f"{title} (kind: {kind.default})" if kind is not None else title


def _about(model: type[BaseModel]) -> str:
    text = (model.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(text.split())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value: object = field.get_default(call_default_factory=True, validated_data={})
    if field.default_factory is not None and isinstance(value, BaseModel):
        return "below"
    return f"`{_yaml(value)}`"


def _yaml(value: object) -> str:
    """As a reader writes it: a section whose keys all have their defaults is the name of its kind."""
    match value:
        case StrEnum() | str() if value:
            return str(value)
        case BaseModel():
            return str(type(value).model_fields["kind"].default)
        case tuple():
            return f"[{', '.join(map(_yaml, value))}]"  # pyright: ignore[reportUnknownArgumentType]
        case float():
            return str(value)
        case _:
            return json.dumps(value)


def _meaning(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    parts = [" ".join((meanings(model).get(name) or _below(field)).split())]
    choices = [*_choices(field.annotation), *_kinds(field.annotation)]
    if any(f"`{choice}`" not in parts[0] for choice in choices):
        several = "Any" if get_origin(field.annotation) is tuple else "One"
        parts.append(f"{several} of " + ", ".join(f"`{c}`" for c in choices) + ".")
    return " ".join(part for part in parts if part)


def _below(field: FieldInfo) -> str:
    """A section says what it is by itself."""
    return next((_about(model) for model in _models(field.annotation)), "")


def _choices(annotation: object) -> list[str]:
    """The words that may stand there, if there are several."""
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return [each.value for each in annotation]
    if get_origin(annotation) is Literal:
        words = get_args(annotation)
        return [str(word) for word in words] if len(words) > 1 else []
    return [choice for argument in get_args(annotation) for choice in _choices(argument)]


def _kinds(annotation: object) -> list[str]:
    """Names of the kinds to choose from; none where there is no choice."""
    kinds = [
        m.model_fields["kind"].default for m in _models(annotation) if "kind" in m.model_fields
    ]
    return kinds if len(kinds) > 1 else []


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, Frozen):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]


if __name__ == "__main__":
    print(config_reference(), end="")
