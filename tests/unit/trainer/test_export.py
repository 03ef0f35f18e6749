# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""What is exported loads elsewhere, and computes the same."""

from pathlib import Path

import pytest
import torch
from peft import PeftModel
from tests.support.trainer import (
    FULL,
    LORA,
    MODEL,
    apply_all,
    done,
    engine_for,
    forward_backward,
    opened,
    optim_step,
    random_batch,
)
from transformers import AutoModelForCausalLM, AutoTokenizer

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.export import CannotExport, export_policy
from warren_gpu_worker.trainer.engine import Engine
from warren_schemas.files import folder_url
from warren_schemas.http import CheckpointList, CheckpointView
from warren_schemas.training import ModelSpec, PublishPolicy

IDS = torch.arange(3, 20)[None]


def trained(base_folder: Path, folder: Path, spec: ModelSpec) -> tuple[Engine, str]:
    engine = opened(engine_for(base_folder, folder), spec)
    step = [forward_backward(random_batch(1)), optim_step(learning_rate=0.02)]
    policy = done(apply_all(engine, [*step * 3, PublishPolicy()])[-1]).policy
    assert policy is not None
    return engine, policy.url


@torch.no_grad()
def logits_of(engine: Engine) -> torch.Tensor:
    network = engine._entries[MODEL].model.network  # pyright: ignore[reportPrivateUsage]
    return network.causal(input_ids=IDS).logits


@torch.no_grad()
@pytest.mark.parametrize("spec", [pytest.param(FULL, id="full"), pytest.param(LORA, id="lora")])
def test_a_whole_model_loads_in_transformers(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    engine, url = trained(base_folder, tmp_path / "checkpoints", spec)
    kind = export_policy(url, tmp_path / "out", base_folder=str(base_folder))
    assert kind == ("model" if spec is FULL else "merged model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.allclose(model(input_ids=IDS).logits, logits_of(engine), rtol=0, atol=2e-4)
    assert not torch.allclose(
        model(input_ids=IDS).logits, load_base(str(base_folder))(input_ids=IDS).logits, atol=0.1
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    chat = [{"role": "user", "content": "?"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "<bos>?"


@torch.no_grad()
def test_an_adapter_loads_in_peft(base_folder: Path, tmp_path: Path) -> None:
    engine, url = trained(base_folder, tmp_path / "checkpoints", LORA)
    assert export_policy(url, tmp_path / "out", base_folder=None, adapter=True) == "adapter"
    model = PeftModel.from_pretrained(load_base(str(base_folder)), str(tmp_path / "out"))
    assert torch.equal(model(input_ids=IDS).logits, logits_of(engine))


def test_what_cannot_be_exported_leaves_nothing(base_folder: Path, tmp_path: Path) -> None:
    _, url = trained(base_folder, tmp_path / "checkpoints", FULL)
    out = tmp_path / "exports" / "out"
    with pytest.raises(CannotExport, match="it has no adapter"):
        export_policy(url, out, base_folder=None, adapter=True)
    assert list(out.parent.iterdir()) == []
    out.mkdir()
    with pytest.raises(CannotExport, match="is there already"):
        export_policy(url, out, base_folder=str(base_folder))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("", "/m/policies/v9"),
        ("9", "/m/policies/v9"),
        ("v7", "/m/policies/v7"),
        ("4", "/m/states/step-000004"),
        ("step-000004", "/m/states/step-000004"),
        ("10", None),
        ("step-000005", None),
        ("best", None),
    ],
)
def test_a_version_names_a_policy_or_a_checkpoint(version: str, expected: str | None) -> None:
    saved = CheckpointView(
        name="step-000004",
        version=4,
        step=4,
        size_bytes=1,
        url="/m/states/step-000004",
        created_s=1.0,
    )
    found = CheckpointList(checkpoints=(saved,), policy_version=9, policy_url="/m/policies/v9")
    assert folder_url(found, version) == expected
