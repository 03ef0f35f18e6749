"""A loop of the shape of the example *Tinker RL training with OpenReward*, over Tinker's SDK and a server of the Open
Reward Standard: a Python that has both runs this, and their variables tell where the two are.

    python openreward_loop.py BASE_MODEL TOKENIZER ENVIRONMENT STEPS [CHECKPOINT]

As there: a client by names of the environment alone, rollouts side by side in which the policy calls tools, stops that
are texts, advantages that are normalized within a group, groups that are all alike left out, ppo with thresholds,
targets that are the input's own tokens, a sampler with a name for each step, a checkpoint at the end, and with
CHECKPOINT going on from one with its optimizer. Prints a JSON object for each step, and last one with the checkpoint.
"""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# (both lie in environments of their own)

import asyncio
import json
import logging
import statistics
import sys
import warnings

import tinker
import torch
from openreward import AsyncOpenReward
from tinker import types
from transformers import AutoTokenizer

N_TASKS, N_ROLLOUTS, RANK = 3, 4, 8
MOST_RESPONSE, MOST_TOTAL = 24, 1200
STOPS = ["<|im_end|>", "</tool_call>"]
SETTINGS = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
ADAM = types.AdamParams(learning_rate=1e-3)


class Rollout:
    """One episode: all tokens, those of the policy with their logprobs, and what was given for them."""

    def __init__(self, tokenizer, session):
        self.tokenizer, self.session = tokenizer, session
        self.ids, self.sampled, self.logprobs, self.rewards = [], [], [], []
        self.is_over = False

    def hear(self, role, text):
        said = f"<|im_start|>{role}\n{text}<|im_end|>\n"
        self.ids += self.tokenizer.encode(said, add_special_tokens=False)

    async def play(self, sampler):
        tools = [[tool.name, tool.input_schema] for tool in await self.session.list_tools()]
        self.hear("system", f"Call tools: {json.dumps(tools)}")
        prompt = await self.session.get_prompt()
        self.hear("user", "".join(block.text for block in prompt if block.type == "text"))
        while not self.is_over and len(self.ids) < MOST_TOTAL:
            self.hear("tool", await self.act(await self.say(sampler)))
        return self

    async def say(self, sampler):
        told = await sampler.sample_async(
            prompt=types.ModelInput.from_ints(self.ids),
            num_samples=1,
            sampling_params=types.SamplingParams(max_tokens=MOST_RESPONSE, stop=STOPS),
        )
        (choice,) = told.sequences
        self.ids += choice.tokens
        self.sampled += choice.tokens
        self.logprobs += choice.logprobs
        return self.tokenizer.decode(choice.tokens, skip_special_tokens=False)

    async def act(self, text):
        _, called, call = text.partition("<tool_call>")
        if not called:
            return "Call a tool."
        asked = json.loads(call.partition("</tool_call>")[0])
        told = await self.session.call_tool(tool_name=asked["name"], input=asked["arguments"])
        self.rewards.append(told.reward or 0.0)
        self.is_over = told.finished
        return "".join(block.text for block in told.blocks if block.type == "text")

    @property
    def reward(self):
        return sum(self.rewards)

    def datum(self, advantage):
        n_before = len(self.ids) - len(self.sampled)
        tensors = {
            "target_tokens": torch.tensor(self.ids, dtype=torch.int32),
            "logprobs": torch.tensor([0.0] * n_before + self.logprobs),
            "advantages": torch.tensor([0.0] * n_before + [advantage] * len(self.sampled)),
        }
        inputs = {name: types.TensorData.from_torch(values) for name, values in tensors.items()}
        return types.Datum(model_input=types.ModelInput.from_ints(self.ids), loss_fn_inputs=inputs)


async def rolled(environment, tokenizer, sampler, index):
    async with environment.session(split="train", index=index) as session:
        return await Rollout(tokenizer, session).play(sampler)


async def groups(environment, tokenizer, sampler):
    indices = [index for index in range(N_TASKS) for _ in range(N_ROLLOUTS)]
    played = [rolled(environment, tokenizer, sampler, index) for index in indices]
    rollouts = await asyncio.gather(*played)
    return [rollouts[at : at + N_ROLLOUTS] for at in range(0, len(rollouts), N_ROLLOUTS)]


def datums(group):
    """Of none of them, where one is worth what the others are."""
    rewards = [rollout.reward for rollout in group]
    mean, spread = statistics.mean(rewards), statistics.stdev(rewards)
    if spread < 1e-8:
        return []
    return [rollout.datum((rollout.reward - mean) / spread) for rollout in group]


async def step(trainer, data):
    computed = await trainer.forward_backward_async(data, loss_fn="ppo", loss_fn_config=SETTINGS)
    taken = await trainer.optim_step_async(ADAM)
    gradient = await computed
    await taken
    return gradient.metrics["loss:sum"]


async def begun(service, base_model, checkpoint):
    if checkpoint:
        return await service.create_training_client_from_state_with_optimizer_async(checkpoint)
    return await service.create_lora_training_client_async(base_model=base_model, rank=RANK)


async def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    base_model, folder, name, n_steps, *checkpoint = sys.argv[1:]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    trainer = await begun(tinker.ServiceClient(), base_model, *checkpoint or [""])
    environment = AsyncOpenReward().environments.get(name)
    assert await environment.num_tasks("train") >= N_TASKS
    for number in range(int(n_steps)):
        named = f"step_{number:06d}"
        sampler = await trainer.save_weights_and_get_sampling_client_async(name=named)
        played = await groups(environment, tokenizer, sampler)
        data = [datum for group in played for datum in datums(group)]
        loss = await step(trainer, data) if data else None
        rewards = [rollout.reward for group in played for rollout in group]
        row = {"step": number, "loss": loss, "n_data": len(data), "rewards": rewards}
        print(json.dumps(row), flush=True)
    saved = await (await trainer.save_state_async("checkpoint")).result_async()
    print(json.dumps({"saved": saved.path}), flush=True)


asyncio.run(main())
