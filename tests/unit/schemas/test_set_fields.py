"""A body without the keys that nobody set."""

import orjson
from tests.support.factories import make_config

from warren_schemas.codec.set_fields import set_fields_json
from warren_schemas.config import FullUpdate, ModelConfig, PpoLoss, TrainConfig
from warren_schemas.http import SubmitRun


def test_defaults_are_left_to_the_gateway() -> None:
    config = TrainConfig.model_validate(
        {"model": {"base": "tiny"}, "environments": [{"name": "guess"}]}
    )

    assert orjson.loads(set_fields_json(SubmitRun(config=config))) == {
        "config": {"model": {"base": "tiny"}, "environments": [{"name": "guess"}]}
    }


def test_a_variant_says_which_one_it_is() -> None:
    assert orjson.loads(set_fields_json(ModelConfig(base="tiny", update=FullUpdate()))) == {
        "base": "tiny",
        "update": {"kind": "full"},
    }
    assert orjson.loads(set_fields_json(PpoLoss(clip_low=0.5))) == {"kind": "ppo", "clip_low": 0.5}


def test_what_was_said_is_understood_as_the_same_config() -> None:
    config = make_config()

    assert TrainConfig.model_validate_json(set_fields_json(config)) == config
