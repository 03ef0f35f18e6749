"""The schema that editors read knows the short forms."""

from warren_schemas.config import TrainConfig
from warren_schemas.config_files.editor_schema import editor_schema


def test_it_has_every_key_and_the_short_forms() -> None:
    schema = editor_schema()
    assert set(schema["properties"]) == set(TrainConfig.model_fields)
    loss = schema["$defs"]["AlgorithmConfig"]["properties"]["loss"]
    assert "cispo" in loss["anyOf"][0]["enum"]
    assert {"$ref": "#/$defs/CispoLoss"} in loss["anyOf"]
    assert schema["additionalProperties"] is False
