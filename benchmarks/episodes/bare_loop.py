# pyright: reportUnknownMemberType=false
# (torch and transformers leave parts of their interfaces untyped)
"""The bare side: the recipe in one process and one thread, with torch and nothing around it.

What nobody can be faster than without leaving something out: no queue, no record, no recovery, no
metrics, no checkpoint, and the model that samples is the model that trains.

Legend: `_B` samples, `_G` samples of one question, `_T` tokens, `_A` tokens of the answer, `_V` the
vocabulary.
"""

import argparse
import random
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from benchmarks.episodes import recipe, task
from benchmarks.episodes.meter import Reading
from benchmarks.episodes.recipe import Figures
from benchmarks.episodes.supervised import (
    apply,
    encode,
    load_tokenizer,
    make_optimizer,
    prompt_text,
    warmed_up,
)
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM


@dataclass(frozen=True, slots=True)
class Samples:
    """Prompts and answers of B samples; what comes after the end of a turn is masked out."""

    ids_BT: Tensor
    mask_BA: Tensor
    logprobs_BA: Tensor
    advantages_B: Tensor

    def part(self, start: int, stop: int) -> "Samples":
        """Those of a part that carry a signal."""
        kept = torch.nonzero(self.advantages_B[start:stop])[:, 0] + start
        return Samples(
            self.ids_BT[kept], self.mask_BA[kept], self.logprobs_BA[kept], self.advantages_B[kept]
        )


class BareLoop:
    def __init__(self, folder: Path, seed: int) -> None:
        self._tokenizer: PreTrainedTokenizerFast = load_tokenizer(folder)
        self._model: Qwen3ForCausalLM = warmed_up(folder, self._tokenizer, seed)
        self._optimizer = make_optimizer(self._model)
        self._rng = random.Random(f"questions/{seed}")
        self._n_steps = 0
        self.rewards: deque[tuple[float, bool]] = deque(maxlen=recipe.REWARD_WINDOW)
        """Reward, and whether it was exact, of the last samples."""

    def play_round(self) -> None:
        """Sample with one policy, then take the round's optimizer steps."""
        n_groups = recipe.GROUPS_PER_STEP * recipe.STEPS_PER_ROUND
        asked = [task.question(self._rng) for _ in range(n_groups)]
        samples = self._sample([question for question in asked for _ in range(recipe.GROUP_SIZE)])
        for start in range(0, recipe.EPISODES_PER_ROUND, recipe.EPISODES_PER_STEP):
            self._learn(samples.part(start, start + recipe.EPISODES_PER_STEP))

    @torch.no_grad()
    def _sample(self, asked_B: list[str]) -> Samples:
        prompts = [prompt_text(self._tokenizer, asked) for asked in asked_B]
        ids_BT, logprobs_BA = self._generate(encode(self._tokenizer, prompts))
        answers_BA = ids_BT[:, -task.MAX_TOKENS :]
        is_end_BA = answers_BA.eq(cast(int, self._tokenizer.eos_token_id))
        mask_BA = (is_end_BA.cumsum(1) - is_end_BA.long() == 0).float()
        said_B = self._texts(answers_BA, mask_BA)
        rewards = [task.reward(asked, said) for asked, said in zip(asked_B, said_B, strict=True)]
        exact = [task.answer(asked) == said for asked, said in zip(asked_B, said_B, strict=True)]
        self.rewards.extend(zip(rewards, exact, strict=True))
        return Samples(ids_BT, mask_BA, logprobs_BA, _advantages(torch.tensor(rewards)))

    def _generate(self, ids_BT: Tensor) -> tuple[Tensor, Tensor]:
        """The ids with answers of full length behind them, and the answers' logprobs (B, A)."""
        new_BT, cache, logprobs = ids_BT, None, list[Tensor]()
        for _ in range(task.MAX_TOKENS):
            output = self._model(
                input_ids=new_BT, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            cache = output.past_key_values
            logprobs_BV = cast(Tensor, output.logits)[:, -1].log_softmax(-1)
            new_BT = torch.multinomial(logprobs_BV.exp(), 1)
            logprobs.append(logprobs_BV.gather(1, new_BT))
            ids_BT = torch.cat([ids_BT, new_BT], 1)
        return ids_BT, torch.cat(logprobs, 1)

    def _texts(self, answers_BA: Tensor, mask_BA: Tensor) -> list[str]:
        kept_BA = answers_BA.masked_fill(mask_BA.eq(0), cast(int, self._tokenizer.pad_token_id))
        return self._tokenizer.batch_decode(kept_BA, skip_special_tokens=True)

    def _learn(self, samples: Samples) -> None:
        """One optimizer step; none where no group carries a signal."""
        if not len(samples.advantages_B):
            return
        self._n_steps += 1
        logits_BTV = cast(Tensor, self._model(input_ids=samples.ids_BT[:, :-1]).logits)
        logprobs_BAV = logits_BTV[:, -task.MAX_TOKENS :].log_softmax(-1)
        answers_BA1 = samples.ids_BT[:, -task.MAX_TOKENS :, None]
        logprobs_BA = logprobs_BAV.gather(2, answers_BA1)[..., 0]
        _loss(samples, logprobs_BA).backward()
        rise = min(1.0, self._n_steps / recipe.RISE_STEPS)
        apply(self._optimizer, self._model, recipe.LEARNING_RATE * rise)


def _advantages(rewards_B: Tensor) -> Tensor:
    rewards_NG = rewards_B.view(-1, recipe.GROUP_SIZE)
    centered_NG = rewards_NG - rewards_NG.mean(1, keepdim=True)
    advantages_NG = centered_NG / (rewards_NG.std(1, keepdim=True) + 1e-4)
    has_signal_N1 = rewards_NG.std(1, keepdim=True) > 1e-6
    return (advantages_NG * has_signal_N1).flatten()


def _loss(samples: Samples, logprobs_BA: Tensor) -> Tensor:
    ratio_BA = (logprobs_BA - samples.logprobs_BA).exp()
    clipped_BA = ratio_BA.clamp(recipe.CLIP_LOW, recipe.CLIP_HIGH)
    advantages_B1 = samples.advantages_B[:, None]
    gain_BA = torch.minimum(ratio_BA * advantages_B1, clipped_BA * advantages_B1)
    return -(gain_BA * samples.mask_BA).sum() / samples.mask_BA.sum()


def measure(folder: Path, n_samples: int, seed: int) -> Figures:
    loop = BareLoop(folder, seed)
    loop.play_round()
    first = Reading.now()
    n_rounds = n_samples // recipe.EPISODES_PER_ROUND - 1
    for _ in range(n_rounds):
        loop.play_round()
    end = Reading.now()
    return Figures(
        n_samples=n_rounds * recipe.EPISODES_PER_ROUND,
        cpu_s=end.cpu_s - first.cpu_s,
        wall_s=end.wall_s - first.wall_s,
        reward=sum(reward for reward, _ in loop.rewards) / len(loop.rewards),
        exact=sum(exact for _, exact in loop.rewards) / len(loop.rewards),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.episodes.bare_loop", description=__doc__)
    parser.add_argument("base_model", type=Path, help="folder of warren/tiny")
    parser.add_argument("--samples", type=int, default=51_200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(measure(options.base_model, options.samples, options.seed).to_line(), flush=True)


if __name__ == "__main__":
    main()
