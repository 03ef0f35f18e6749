# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (torch, transformers and safetensors leave parts of their interfaces untyped)
"""Fine-tuning on a data set through real samplers and a real trainer: the same as a plain loop in torch."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from transformers import AutoModelForCausalLM, AutoTokenizer

from warren import Client, Dataset, Run
from warren_schemas.config import TrainConfig
from warren_schemas.datasets.order import Order

N_ROWS, PER_STEP, EPOCHS, EVALUATE_EVERY = 10, 4, 2.0, 2
PEAK = {"lora": 1.0, "full": 0.03}
"""Learning rates with which something is learned in five steps."""
RANK, ALPHA = 4, 8.0
ADAM: dict[str, Any] = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-4, "clip_norm": 0.0}
"""With an epsilon that tells a gradient from rounding."""
CHATS = [
    [
        {"role": "system", "content": "sums"},
        {"role": "user", "content": f"{n}+{n}="},
        {"role": "assistant", "content": str(2 * n)},
        *([{"role": "user", "content": "times 3?"}, {"role": "assistant", "content": str(6 * n)}] * (n % 3)),
    ]
    for n in range(N_ROWS)
]  # fmt: skip


HELD_OUT = [
    [{"role": "user", "content": f"{n}+{n}="}, {"role": "assistant", "content": str(2 * n)}]
    for n in range(N_ROWS, N_ROWS + 5)
]


def _config(update: dict[str, Any]) -> TrainConfig:
    return TrainConfig.model_validate(
        {
            "model": {"base": "warren/tiny", "update": update},
            "sft": {
                "dataset": "sums", "epochs": EPOCHS, "episodes_per_step": PER_STEP, "learning_rate": PEAK[update["kind"]],
                "evaluation_split": "held-out", "evaluate_every": EVALUATE_EVERY,
            },
            "optimizer": ADAM,
            "limits": {"steps": 0},
            "seed": 3,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        ("lora", True),
        pytest.param("full", False, marks=[pytest.mark.storm, pytest.mark.thorough]),
        pytest.param("full", True, marks=[pytest.mark.storm, pytest.mark.thorough]),
        pytest.param("lora", False, marks=[pytest.mark.storm, pytest.mark.thorough]),
    ],
)
@several_waits
async def test_parity_row_24_it_equals_a_plain_loop(
    tmp_path: Path, kind: str, packed: bool
) -> None:
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))
    base = str(site.gpu.base_models["warren/tiny"])
    update: dict[str, Any] = {"kind": kind}
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    if kind == "lora":
        model = _adapted(model, tmp_path / "adapter")
        update |= {"rank": RANK, "alpha": ALPHA, "start_adapter": "mine"}
    adapters = {"mine": (tmp_path / "adapter").as_uri()} if kind == "lora" else {}
    site = replace(
        site,
        gpu=site.gpu.model_copy(update={"pack_sequences": packed, "adapters": adapters}),
    )
    async with site.running(site.gpu_worker) as client:
        dataset = await _uploaded(client, tmp_path)
        run = await client.train(_config(update))
        await run.result()
        assert run.view.config is not None and run.view.config.sft is not None
        assert run.view.config.sft.dataset == dataset.reference
        losses = [row.metrics["sft/policy/loss"] async for row in run.metrics(["sft/policy/loss"])]
        held_out = await _evaluations(run)
        name = (await run.checkpoints()).checkpoints[-1].name
        await run.download(tmp_path / "result", name)
    expected, wanted_of_held_out = _plain_loop(model, base, PEAK[kind])
    assert losses == pytest.approx(expected, rel=1e-3)
    assert [at for at, _ in held_out] == [at for at, _ in wanted_of_held_out]
    assert [loss for _, loss in held_out] == pytest.approx(
        [loss for _, loss in wanted_of_held_out], rel=1e-3
    )
    assert expected[-1] < 0.7 * expected[0], "nothing was learned, so nothing is compared"
    saved = _saved(tmp_path / "result")
    wanted = _weights(model)
    assert saved.keys() >= wanted.keys() or wanted.keys() >= saved.keys()
    for key in saved.keys() & wanted.keys():
        torch.testing.assert_close(saved[key], wanted[key], rtol=1e-3, atol=1e-3)


async def _uploaded(client: Client, folder: Path) -> Dataset:
    """The split to learn from and the one that is held out."""
    files = folder / "sums"
    files.mkdir()
    for split, chats in (("train", CHATS), ("held-out", HELD_OUT)):
        lines = "".join(json.dumps({"messages": chat}) + "\n" for chat in chats)
        (files / f"{split}.jsonl").write_text(lines)
    return await client.datasets.upload(files, "sums")


async def _evaluations(run: Run) -> list[tuple[tuple[int, int], float]]:
    """Step, tokens and loss of each."""
    return [
        ((row.step, int(row.metrics["sft/evaluation_tokens"])), row.metrics["sft/evaluation_loss"])
        async for row in run.metrics(["sft/evaluation_*"])
    ]


def _adapted(model: Any, folder: Path) -> Any:
    torch.manual_seed(0)
    config = LoraConfig(
        r=RANK, lora_alpha=int(ALPHA), target_modules="all-linear", init_lora_weights=False
    )
    adapted = get_peft_model(model, config)
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.mul_(0.1)
    adapted.save_pretrained(str(folder))
    return adapted


def _weights(model: Any) -> dict[str, torch.Tensor]:
    if isinstance(model, PeftModel):
        from peft import get_peft_model_state_dict

        return get_peft_model_state_dict(model)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _plain_loop(
    model: Any, base: str, peak: float
) -> tuple[list[float], list[tuple[tuple[int, int], float]]]:
    """The losses of the steps, and those over what is held out."""
    tokenizer: Any = AutoTokenizer.from_pretrained(base)
    n_steps = math.ceil(EPOCHS * N_ROWS / PER_STEP)
    order = Order("train", 3)
    rows = [order.position(i, N_ROWS) for i in range(n_steps * PER_STEP)]
    assert sorted(rows[:N_ROWS]) == sorted(rows[N_ROWS : 2 * N_ROWS]) == list(range(N_ROWS))
    trained = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(
        trained, betas=(ADAM["beta1"], ADAM["beta2"]), eps=ADAM["eps"], weight_decay=0.0
    )
    model.train()
    losses: list[float] = []
    held_out: list[tuple[tuple[int, int], float]] = []
    for step in range(n_steps):
        batch = [
            _example(tokenizer, CHATS[i]) for i in rows[step * PER_STEP : (step + 1) * PER_STEP]
        ]
        n_learned = sum(sum(mask) for _, mask in batch)
        loss = sum((_nll(model, ids, mask) for ids, mask in batch), torch.zeros(())) / n_learned
        rate = min(1.0, (step + 1) / 20) * max(0.1, 1 - step / n_steps)
        adam.param_groups[0]["lr"] = peak * rate
        adam.zero_grad()
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        adam.step()
        losses.append(float(loss.detach()))
        if (step + 1) % EVALUATE_EVERY == 0 or step + 1 == n_steps:
            held_out.append(_evaluated(model, tokenizer, step + 1))
    return losses, held_out


def _evaluated(model: Any, tokenizer: Any, step: int) -> tuple[tuple[int, int], float]:
    examples = [_example(tokenizer, chat) for chat in HELD_OUT]
    n_tokens = sum(sum(mask) for _, mask in examples)
    with torch.no_grad():
        total = sum(float(_nll(model, ids, mask)) for ids, mask in examples)
    return (step, n_tokens), total / n_tokens


def _example(tokenizer: Any, chat: Sequence[dict[str, str]]) -> tuple[list[int], list[int]]:
    """By transformers' own template; the tiny one begins with `<bos>`, and ends what the assistant says with `<eos>`."""
    ids = tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False)
    mask = [0]
    for message in chat:
        said = tokenizer(message["content"], add_special_tokens=False)["input_ids"]
        is_learned = message["role"] == "assistant"
        mask += [int(is_learned)] * (len(said) + is_learned)
    assert len(mask) == len(ids)
    return ids, mask


def _nll(model: Any, ids: list[int], mask: list[int]) -> torch.Tensor:
    logits_TV = model(torch.tensor([ids])).logits[0, :-1]
    nll_T = torch.nn.functional.cross_entropy(logits_TV, torch.tensor(ids[1:]), reduction="none")
    return (nll_T * torch.tensor(mask[1:])).sum()


@pytest.mark.storm
@several_waits
async def test_one_that_was_torn_down_in_the_middle_ends_with_the_same_weights(
    tmp_path: Path,
) -> None:
    """Gateway, broker and workers at once: what was in their memory is gone."""
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))
    config = _config({"kind": "full"})
    async with site.running(site.gpu_worker) as client:
        await _uploaded(client, tmp_path)
        torn = await client.train(config)
        async for row in torn.metrics(follow=True):
            if row.step == 2:
                break
    async with site.running(site.gpu_worker) as client:
        torn = await client.run(torn.id)
        await torn.result()
        whole = await client.train(config)
        await whole.result()
        for run, folder in ((torn, "torn"), (whole, "whole")):
            name = (await run.checkpoints()).checkpoints[-1].name
            await run.download(tmp_path / folder, name)
        losses = [
            [row.metrics["sft/policy/loss"] async for row in run.metrics(["sft/policy/loss"])]
            for run in (torn, whole)
        ]
        held_out = [await _evaluations(run) for run in (torn, whole)]
    assert losses[0] == losses[1]
    assert held_out[0] == held_out[1]
    assert [step for (step, _), _ in held_out[0]] == [2, 4, 5]
    found, wanted = (_saved(tmp_path / folder) for folder in ("torn", "whole"))
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def _saved(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(next(folder.glob("*model.safetensors")))
