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
from warren_gpu_worker.trainer.child.engine import Engine
from warren_schemas.files import find_folder
from warren_schemas.http import CheckpointList, CheckpointView, PolicyView
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
    with pytest.raises(CannotExport, match="already exists"):
        export_policy(url, out, base_folder=str(base_folder))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("", "/m/policies/v45"),
        ("9", "/m/policies/v45"),
        ("8", "/m/policies/v44"),
        ("6", "/m/policies/v44"),
        ("5", "/m/policies/v43"),
        ("3", None),
        ("4", "/m/states/step-000004"),
        ("sft-000040", "/m/states/sft-000040"),
        ("v44", "/m/policies/v44"),
        ("v46", None),
        ("step-000004", "/m/states/step-000004"),
        ("10", None),
        ("step-000005", None),
        ("best", None),
    ],
)
def test_a_step_names_the_policy_in_force_after_it(wanted: str, expected: str | None) -> None:
    """Steps 7 and 8 made no update, so the policy of step 6 was in force."""
    warm = CheckpointView(
        name="sft-000040",
        version=40,
        step=0,
        size_bytes=1,
        url="/m/states/sft-000040",
        created_s=1.0,
    )
    saved = CheckpointView(
        name="step-000004",
        version=42,
        step=4,
        size_bytes=1,
        url="/m/states/step-000004",
        created_s=1.0,
    )
    policies = tuple(
        PolicyView(step=step, version=version, url=f"/m/policies/v{version}")
        for step, version in ((5, 43), (6, 44), (9, 45))
    )
    found = CheckpointList(checkpoints=(warm, saved), step=9, policies=policies)
    named = find_folder(found, wanted)
    assert (named and named.url) == expected
