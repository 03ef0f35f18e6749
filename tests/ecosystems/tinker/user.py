"""One user of Tinker's SDK, who does what is read line by line: the SDK's own Python runs this.

    python user.py URL KEY BASE_MODEL

A line is a JSON array: a method of `User` and its arguments. Each is answered with a line: `{"told": …}`, or `{"refused": …}`
with the error's class and text.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# (the SDK lies in an environment of its own)

import json
import logging
import sys
import urllib.request
import warnings

import tinker
from tinker import types

PROMPT = types.ModelInput.from_ints([2, 9, 14])
IDS = [2, 9, 14, 20, 7]


def datum():
    inputs = {
        "target_tokens": types.TensorData(data=IDS[1:], dtype="int64"),
        "weights": types.TensorData(data=[1.0] * 4, dtype="float32"),
    }
    return types.Datum(model_input=types.ModelInput.from_ints(IDS[:-1]), loss_fn_inputs=inputs)


def sampled(sampler):
    params = types.SamplingParams(max_tokens=4)
    told = sampler.sample(prompt=PROMPT, num_samples=1, sampling_params=params).result()
    return len(told.sequences)


class User:
    def __init__(self, url, key, base_model):
        self.base = base_model
        self.service = tinker.ServiceClient(base_url=url, api_key=key)
        self.rest = self.service.create_rest_client()
        self.trainer, self.kept = None, None

    def train(self, n_steps):
        """Sampling beside it; what it has at last, by the names of everything."""
        if self.trainer is None:
            made = self.service.create_lora_training_client(base_model=self.base, rank=4, seed=1)
            self.trainer = made.result()
        samples = []
        for _ in range(n_steps):
            gradients = self.trainer.forward_backward([datum()], "cross_entropy")
            taken = self.trainer.optim_step(types.AdamParams(learning_rate=1e-2))
            sampler = self.trainer.save_weights_and_get_sampling_client().result()
            params = types.SamplingParams(max_tokens=4)
            samples.append(sampler.sample(PROMPT, 2, params))
            gradients.result()
            taken.result()
        n_sampled = sum(len(one.result().sequences) for one in samples)
        run = self.trainer.model_id
        session = run.split(":")[0]
        return {
            "n_sampled": n_sampled,
            "run": run,
            "session": session,
            "samplers": self.rest.get_session(session).result().sampler_ids,
            "logprobs": self.trained(self.trainer),
        }

    def saved(self):
        return {
            "state": self.trainer.save_state("state").result().path,
            "weights": self.trainer.save_weights_for_sampler("weights").result().path,
            "external": self.trainer.save_weights_external("external").result().path,
        }

    def publish(self, path):
        self.rest.publish_checkpoint_from_tinker_path(path).result()

    def unpublish(self, path):
        self.rest.unpublish_checkpoint_from_tinker_path(path).result()

    def begun(self, path):
        """What a model that begins with a checkpoint tells of the same tokens."""
        made = self.service.create_training_client_from_state(path)
        return self.trained(made.result())

    def trained(self, trainer):
        outputs = trainer.forward([datum()], "cross_entropy").result().loss_fn_outputs
        return list(map(float, outputs[0]["logprobs"].tolist()))

    def sample(self, path):
        """From a sampler that stays open."""
        self.kept = self.service.create_sampling_client(model_path=path).result()
        return sampled(self.kept)

    def sample_again(self):
        return sampled(self.kept)

    def downloaded(self, path):
        """Bytes of each file."""
        urls = self.rest.get_external_weights_urls(path).result().urls
        return {name: self.fetched(url) for name, url in urls.items()}

    def fetched(self, url):
        with urllib.request.urlopen(url) as response:
            return len(response.read())

    def listed(self):
        """All that the SDK lists for this user, as text."""
        runs = self.rest.list_training_runs().result().training_runs
        checkpoints = self.rest.list_user_checkpoints().result().checkpoints
        sessions = self.rest.list_sessions().result().sessions
        return [
            *(one.training_run_id for one in runs),
            *(one.tinker_path for one in checkpoints),
            *sessions,
        ]

    def run(self, name):
        self.rest.get_training_run(name).result()

    def session(self, name):
        self.rest.get_session(name).result()

    def sampler(self, name):
        self.rest.get_sampler(name).result()

    def delete(self, path):
        self.rest.delete_checkpoint_from_tinker_path(path).result()

    def load(self, path):
        self.trainer.load_state(path).result()


def answered(user, line):
    name, *arguments = json.loads(line)
    try:
        return {"told": getattr(user, name)(*arguments)}
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        return {"refused": f"{type(error).__name__}: {error}"}


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    user = User(*sys.argv[1:4])
    for line in sys.stdin:
        print(json.dumps(answered(user, line)), flush=True)


if __name__ == "__main__":
    main()
