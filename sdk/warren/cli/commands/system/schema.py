"""`warren schema`."""

import json

from warren.cli import codes
from warren_schemas.config_files.editor_schema import editor_schema


def schema() -> int:
    """Print the JSON schema of a run's config, for editors that complete and check YAML.

    With the YAML extension of VS Code and others, the first line of a config names it:
    `# yaml-language-server: $schema=warren.schema.json`.

    For example:
        warren schema > warren.schema.json
    """
    print(json.dumps(editor_schema(), indent=2))
    return codes.OK
