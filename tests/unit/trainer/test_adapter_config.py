"""The config of an uploaded adapter is read as PEFT writes it, and written as PEFT reads it."""

import json
from typing import Any

from peft import LoraConfig

from warren_schemas.adapters.config import (
    AdapterConfig,
    config_text,
    parsed_config,
    read_config,
)

CONFIG = AdapterConfig(rank=4, alpha=8.0, targets=("q_proj", "v_proj"), base_model="warren/tiny")


def test_what_peft_writes_is_read() -> None:
    fields: dict[str, Any] = {
        **LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM").to_dict(),
        "target_modules": ["v_proj", "q_proj"],
        "base_model_name_or_path": "warren/tiny",
    }
    assert read_config(parsed_config(json.dumps(fields).encode())) == CONFIG


def test_peft_reads_what_is_written() -> None:
    written = json.loads(config_text(CONFIG, ("q_proj", "v_proj"), "warren/tiny"))
    read = LoraConfig(**written)
    assert (read.r, read.lora_alpha) == (4, 8.0)
