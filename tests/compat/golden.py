"""What must not change by accident, and how to change it on purpose.

    python -m tests.compat.golden        write every golden file anew (`make golden`)

`messages/KIND.vN.bin` holds the bytes of example items, `messages/KIND.vN.json` the JSON schema of
the kind, `http/NAME.json` the JSON schema of an HTTP body or of the config.
`docs/configuration.md` is written from the schemas, too, `docs/metrics.md` from the registry of metrics, and
`docs/exports.md` from the columns of exports.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, cast

import orjson
from pydantic import BaseModel
from tests.support.factories import EXAMPLES

from warren_schemas import http
from warren_schemas.base import Frozen
from warren_schemas.codec.wire import KINDS, encode
from warren_schemas.config import TrainConfig
from warren_schemas.config_files.reference import config_reference
from warren_schemas.envelope import Item
from warren_schemas.exports.page import exports_page
from warren_schemas.metrics.page import metrics_page
from warren_schemas.openai import answers, generate, requests
from warren_schemas.users import access, budgets, limits, usage

HERE = Path(__file__).parent
MESSAGES = HERE / "messages"
HTTP = HERE / "http"
CONFIGURATION_PAGE = HERE.parents[1] / "docs" / "configuration.md"
EXPORTS_PAGE = HERE.parents[1] / "docs" / "exports.md"
METRICS_PAGE = HERE.parents[1] / "docs" / "metrics.md"


def message_file(kind: type[Item]) -> Path:
    return MESSAGES / f"{kind.kind}.v{kind.schema_version}.bin"


def http_file(body: type[BaseModel]) -> Path:
    return HTTP / f"{body.__name__}.json"


def http_bodies() -> list[type[BaseModel]]:
    """The config and every body of the API's own routes and of the OpenAI-compatible ones."""
    modules = [*_modules_of(http), budgets, access, limits, usage, requests, answers, generate]
    return [TrainConfig, *(body for module in modules for body in _bodies_of(module))]


def _modules_of(package: ModuleType) -> list[ModuleType]:
    names = (module.name for module in iter_modules(package.__path__))
    return [import_module(f"{package.__name__}.{name}") for name in names]


def _bodies_of(module: ModuleType) -> list[type[BaseModel]]:
    named = [value for value in vars(module).values() if isinstance(value, type)]
    return [b for b in named if issubclass(b, Frozen) and b.__module__ == module.__name__]


def json_schema(schema: type[BaseModel]) -> bytes:
    """As text that reads well in a diff; what only documents is left out."""
    plain = _without_prose(schema.model_json_schema())
    return orjson.dumps(plain, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _without_prose(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_prose(part) for part in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    kept = {
        key: part for key, part in cast("dict[str, Any]", value).items() if not _is_prose(key, part)
    }
    return {key: _without_prose(part) for key, part in kept.items()}


def _is_prose(key: str, value: object) -> bool:
    """A property may be called title, too, but is no text."""
    return key in ("title", "description") and isinstance(value, str)


def golden_files() -> Iterator[tuple[Path, bytes]]:
    """Every golden file with what it should hold now."""
    for kind in KINDS.values():
        path = message_file(kind)
        yield path, encode(EXAMPLES[kind])
        yield path.with_suffix(".json"), json_schema(kind)
    for body in http_bodies():
        yield http_file(body), json_schema(body)
    yield CONFIGURATION_PAGE, config_reference().encode()
    yield EXPORTS_PAGE, exports_page().encode()
    yield METRICS_PAGE, metrics_page().encode()


if __name__ == "__main__":
    for path, content in golden_files():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
