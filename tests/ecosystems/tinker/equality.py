"""What the trainer computes for Tinker's SDK, beside plain float64 torch: the SDK's own Python runs this.

    python equality.py URL KEY BASE_MODEL FOLDER

FOLDER has the base model. Each loss takes two steps from the same adapter, whose weights are downloaded before and
after; the reference takes the same steps from the same weights. Prints one JSON object: for each loss the largest
difference of its logprobs, its sums and the adapter's weights, and how far the weights had moved.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# (the SDK lies in an environment of its own)

import json
import logging
import sys
import urllib.request
import warnings
from functools import partial

import numpy as np
import tinker
import torch
from safetensors.torch import load as load_tensors
from tinker import types
from transformers import AutoModelForCausalLM

N_STEPS = 2
STEP = types.AdamParams(learning_rate=1e-2, beta1=0.8, beta2=0.9, eps=0.05, weight_decay=0.1)
LOW, HIGH, BETA = 0.95, 1.05, 0.3
CLIP = {"clip_low_threshold": LOW, "clip_high_threshold": HIGH}
SETTINGS = {"ppo": CLIP, "cispo": CLIP, "gspo": CLIP, "dro": {"beta": BETA}}
PROMPT, N_TARGETS = 2, 4


def cross_entropy(logprobs, old, weights):
    return -(weights * logprobs).sum()


def importance_sampling(logprobs, old, advantages):
    return -((logprobs - old).exp() * advantages).sum()


def ppo(logprobs, old, advantages):
    ratio = (logprobs - old).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(LOW, HIGH) * advantages).sum()


def cispo(logprobs, old, advantages):
    return -((logprobs - old).exp().clamp(LOW, HIGH).detach() * logprobs * advantages).sum()


def dro(logprobs, old, advantages):
    return -(logprobs * advantages - BETA / 2 * (logprobs - old) ** 2).sum()


def gspo(logprobs, old, advantages):
    ratio = (logprobs - old).mean().exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(LOW, HIGH) * advantages).sum()


LOSSES = [cross_entropy, importance_sampling, ppo, cispo, dro, gspo]


class Data:
    """Sequences of several lengths; what comes before token `PROMPT` is not trained on. In one of them the targets
    are not the next tokens but the last ones again."""

    def __init__(self, model):
        draw = np.random.default_rng(3)
        self.ids = [draw.integers(2, 60, size=size).tolist() for size in (9, 6, 13)]
        self.targets = [ids[1:] for ids in self.ids]
        self.targets[1] = self.ids[1][:-1]
        self.inputs = []
        for ids, targets in zip(self.ids, self.targets, strict=True):
            trained = np.arange(len(ids) - 1) >= PROMPT - 1
            noise = draw.normal(0, 0.1, size=len(ids) - 1)
            old = np.minimum(model.logprobs(ids, targets).detach().numpy() + noise, -1e-3)
            weights = np.where(trained, draw.normal(0.3, 1.0, size=len(ids) - 1), 0)
            self.inputs.append((trained, np.where(trained, old, 0), weights))
        self.inputs = [(t, o.astype(np.float32), w.astype(np.float32)) for t, o, w in self.inputs]

    def datums(self, loss):
        rows = zip(self.ids, self.targets, self.inputs, strict=True)
        return [self._datum(ids, targets, *given, loss) for ids, targets, given in rows]

    def _datum(self, ids, targets, _trained, old, weights, loss):
        tensors = {"target_tokens": types.TensorData(data=targets, dtype="int64")}
        floats = {"weights": weights}
        if loss != "cross_entropy":
            floats = {"logprobs": old, "advantages": weights}
        for name, values in floats.items():
            tensors[name] = types.TensorData(data=values.tolist(), dtype="float32")
        return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=tensors)


class Several(Data):
    """Of each token several targets with a weight each: many in the first sequence, and few in the others, which are
    sent as what is not 0."""

    def __init__(self, model):
        super().__init__(model)
        draw = np.random.default_rng(4)
        shares = [0.9, 0.3, 0.3]
        shapes = [(len(targets), N_TARGETS) for targets in self.targets]
        listed = [draw.random(shape) < share for shape, share in zip(shapes, shares, strict=True)]
        self.targets = [draw.integers(2, 50, size=one.shape) * one for one in listed]
        weights = [draw.normal(0.1, 0.5, size=one.shape) * one for one in listed]
        kept = [
            (trained, w * trained[:, None])
            for (trained, *_), w in zip(self.inputs, weights, strict=True)
        ]
        self.inputs = [(t, np.zeros(len(t), np.float32), w.astype(np.float32)) for t, w in kept]

    def _datum(self, ids, targets, _trained, _old, weights, _loss):
        tensors = {"target_tokens": torch.tensor(targets), "weights": torch.tensor(weights)}
        return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=tensors)


class Reference:
    """The base model with an adapter, all in float64."""

    def __init__(self, folder):
        self.base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
        self.base.requires_grad_(False)
        self.adapter, self.scale = {}, 1.0
        for name, module in self.base.named_modules():
            if isinstance(module, torch.nn.Linear):
                module.register_forward_hook(self._adapted(name))

    def _adapted(self, name):
        def hook(_module, args, output):
            low = self.adapter.get(f"{name}.lora_A")
            if low is None:
                return output
            return output + self.scale * (args[0] @ low.T @ self.adapter[f"{name}.lora_B"].T)

        return hook

    def take(self, weights, config):
        self.scale = config["lora_alpha"] / config["r"]
        self.adapter = {
            name: value.to(torch.float64).requires_grad_() for name, value in weights.items()
        }

    def logprobs(self, ids, targets):
        logits = self.base(input_ids=torch.tensor([ids[:-1]])).logits[0]
        targets = torch.tensor(targets)
        found = logits.log_softmax(-1).gather(1, targets.reshape(len(targets), -1))
        return found.reshape(targets.shape)

    def stepped(self, loss, data):
        """The logprobs and the sums of each step."""
        values = list(self.adapter.values())
        optimizer = torch.optim.AdamW(
            values,
            lr=STEP.learning_rate,
            betas=(STEP.beta1, STEP.beta2),
            eps=STEP.eps,
            weight_decay=STEP.weight_decay,
        )
        told = []
        for _ in range(N_STEPS):
            optimizer.zero_grad()
            logprobs = list(map(self.logprobs, data.ids, data.targets))
            total = sum(
                loss(lp[t], torch.tensor(o)[t].double(), torch.tensor(w)[t].double())
                for lp, (t, o, w) in zip(logprobs, map(as_masks, data.inputs), strict=True)
            )
            total.backward()
            optimizer.step()
            told.append((torch.cat(logprobs).detach().numpy(), float(total)))
        return told


def as_masks(given):
    trained, old, weights = given
    return torch.tensor(trained), old, weights


def downloaded(rest, trainer, name):
    """The adapter as Hugging Face's libraries name its weights, and its config."""
    path = trainer.save_weights_external(name).result().path
    urls = rest.get_external_weights_urls(path).result().urls
    files = {file: urllib.request.urlopen(url).read() for file, url in urls.items()}
    tensors = load_tensors(files["adapter_model.safetensors"])
    begun = "base_model.model."
    return {
        name.removeprefix(begun).removesuffix(".weight"): value for name, value in tensors.items()
    }, json.loads(files["adapter_config.json"])


def trained(compute, step):
    """The logprobs and the sum that each step told; `compute` asks for a gradient."""
    told = []
    for _ in range(N_STEPS):
        gradient = compute().result()
        step(STEP).result()
        outputs = [one["logprobs"].to_numpy() for one in gradient.loss_fn_outputs]
        told.append((np.concatenate(outputs), gradient.metrics["loss:sum"]))
    return told


def apart(one, other):
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


def compared(name, told, expected, before, after, reference):
    steps = list(zip(told, expected, strict=True))
    return {
        "loss": name,
        "logprobs": max(float(np.abs(a[0] - b[0]).max()) for a, b in steps),
        "sums": max(abs(a[1] - b[1]) / max(abs(b[1]), 1.0) for a, b in steps),
        "weights": apart(after, {n: v.detach() for n, v in reference.items()}),
        "moved": apart(after, before),
    }


def own_ppo(data, logprobs):
    """What the built-in does, on the client's side."""
    total = 0.0
    for datum, lp in zip(data, logprobs, strict=True):
        old = torch.tensor(datum.loss_fn_inputs["logprobs"].data)
        weights = torch.tensor(datum.loss_fn_inputs["advantages"].data)
        total = total + ppo(lp.flatten(), old, weights)
    return total, {"own:sum": float(total.detach())}


def own_cross_entropy(data, logprobs):
    total = 0.0
    for datum, lp in zip(data, logprobs, strict=True):
        total = total - (datum.loss_fn_inputs["weights"].to_torch() * lp).sum()
    return total, {}


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    url, key, base_model, folder = sys.argv[1:5]
    service = tinker.ServiceClient(base_url=url, api_key=key)
    rest = service.create_rest_client()
    trainer = service.create_lora_training_client(base_model=base_model, rank=4, seed=1).result()
    reference = Reference(folder)
    before, config = downloaded(rest, trainer, "before")
    reference.take(before, config)
    data = Data(reference)
    begun = trainer.save_state("begun").result().path
    several, rows, afters = Several(reference), [], {}
    for name, loss, its_data in (
        *((loss.__name__, loss, data) for loss in LOSSES),
        ("several", cross_entropy, several),
    ):
        trainer.load_state(begun).result()
        reference.take(before, config)
        expected = reference.stepped(loss, its_data)
        datums, settings = its_data.datums(loss.__name__), SETTINGS.get(name)
        compute = partial(trainer.forward_backward, datums, loss.__name__, settings)
        told = trained(compute, trainer.optim_step)
        afters[name], _ = downloaded(rest, trainer, f"after-{name}")
        rows.append(compared(name, told, expected, before, afters[name], reference.adapter))
    for name, own_loss, datums in (
        ("ppo", own_ppo, data.datums("ppo")),
        ("several", own_cross_entropy, several.datums("")),
    ):
        trainer.load_state(begun).result()
        for _ in range(N_STEPS):
            trainer.forward_backward_custom(datums, own_loss).result()
            trainer.optim_step(STEP).result()
        after, _ = downloaded(rest, trainer, f"after-custom-{name}")
        rows.append(
            {
                "loss": f"custom {name}",
                "weights": apart(after, afters[name]),
                "moved": apart(after, before),
            }
        )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
