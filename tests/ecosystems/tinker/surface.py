"""Calls every public method of the Tinker SDK once, against a real gateway: the SDK's own Python runs this.

    python surface.py URL KEY BASE_MODEL

Prints one JSON object: each method with `works`, or why it was refused. What the SDK has and nobody calls here is
told as `not tried`, so that a new release shows itself, with clients of new classes, too.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# (the SDK lies in an environment of its own, in one of several versions)

import asyncio
import inspect
import json
import logging
import os
import sys
import warnings
from datetime import UTC, date, datetime, timedelta

import tinker
from tinker import types

CLASSES = {"RestClient", *(name for name in dir(tinker) if name.endswith("Client"))}
"""What the SDK exports as a client, and one that older versions have elsewhere."""
NOT_REQUESTS = {
    "create",
    "get_telemetry",
    "holder",
    "on_queue_state_change",
    "close",
}
"""Attributes that ask the server for nothing, and what ends the session (told by `ServiceClient.close`)."""
PROMPT = types.ModelInput.from_ints([2, 9, 14, 20, 7])


def datum():
    inputs = {
        "target_tokens": types.TensorData(data=[9, 14, 20, 7], dtype="int64"),
        "weights": types.TensorData(data=[0.0, 1.0, 1.0, 1.0], dtype="float32"),
    }
    return types.Datum(
        model_input=types.ModelInput.from_ints([2, 9, 14, 20]), loss_fn_inputs=inputs
    )


def resolved(value):
    """Clients and values come as such, as futures, or as what can be awaited."""
    for _ in range(3):
        if inspect.isawaitable(value) and not hasattr(value, "result"):
            value = asyncio.run(_awaited(value))
        elif hasattr(value, "result") and callable(value.result):
            value = value.result()
        else:
            return value
    return value


async def _awaited(value):
    value = await value
    return await value if inspect.isawaitable(value) else value


def own_loss(data, logprobs):
    """Of all data at once."""
    loss = -sum(each.sum() for each in logprobs)
    return loss, {"mine": float(loss.detach())}


def traced_loss(logprobs, weights):
    """Of one datum; the SDK traces it."""
    loss = -(logprobs * weights).sum()
    return loss, {"custom/mine:sum": loss}


class Surface:
    def __init__(self, url, key, base_model):
        self.results = {}
        self.base = base_model
        self.service = tinker.ServiceClient(base_url=url, api_key=key)
        self.url, self.key = url, key

    def call(self, client, name, *args, **kwargs):
        """Both forms of a method, where there are two."""
        kind, told = type(client).__name__, None
        for method in (name, f"{name}_async"):
            function = getattr(client, method, None)
            if function is None:
                continue
            try:
                accepted = inspect.signature(function).parameters
                given = {k: v for k, v in kwargs.items() if k in accepted}
                value = resolved(function(*args, **given))
            except Exception as error:  # noqa: BLE001  whatever it is, it is the result
                self.results[f"{kind}.{method}"] = f"{type(error).__name__}: {error}"
            else:
                self.results[f"{kind}.{method}"], told = "works", value
        return told

    def run(self):
        service = self.service
        self.call(service, "get_server_capabilities")
        self.call(service, "get_console_url")
        sampler = self.call(service, "create_sampling_client", base_model=self.base)
        trainer = self.call(service, "create_lora_training_client", base_model=self.base, rank=8)
        rest = self.call(service, "create_rest_client")
        state, weights, external = self.train(trainer)
        self.sample(sampler)
        self.call(service, "create_training_client_from_state", state)
        self.call(service, "create_training_client_from_state_with_optimizer", state)
        copy = self.call(service, "copy_weights", state)
        self.call(service, "create_training_client_from_state", copy)
        ranks = {"logprobs": 1, "weights": 1}
        loss = self.call(service, "create_custom_loss", traced_loss, input_ranks=ranks)
        if loss is not None:
            self.use_loss(trainer, loss)
        self.look(rest, trainer, state, weights, external)
        if hasattr(tinker, "AdminClient"):
            self.administer(tinker.AdminClient(base_url=self.url, api_key=self.key))
        resolved(service.close("success")) if hasattr(service, "close") else None
        self.results["ServiceClient.close"] = "works" if hasattr(service, "close") else "no such"

    def use_loss(self, trainer, loss):
        """It works where the model is trained by it, and it is the built-in one that it imitates."""
        try:
            own = resolved(trainer.forward_backward_custom([datum()], loss)).metrics
            plain = resolved(trainer.forward([datum()], "cross_entropy")).metrics
            resolved(trainer.optim_step(types.AdamParams(learning_rate=1e-3)))
        except Exception as error:  # noqa: BLE001
            told = f"{type(error).__name__}: {error}"
        else:
            is_it = abs(own["custom/mine:sum"] - plain["loss:sum"]) < 1e-4
            told = "works" if is_it else f"another loss: {own} and {plain}"
        self.results["ServiceClient.create_custom_loss"] = told

    def train(self, trainer):
        self.call(trainer, "get_info")
        self.call(trainer, "get_console_url")
        self.call(trainer, "get_tokenizer")
        self.call(trainer, "forward", [datum()], "cross_entropy")
        self.call(trainer, "forward_backward", [datum(), datum()], "cross_entropy")
        self.call(trainer, "optim_step", types.AdamParams(learning_rate=1e-3))
        if hasattr(trainer, "optim_step_async"):  # each step takes the gradients of its own window
            resolved(trainer.forward_backward([datum()], "cross_entropy"))
            self.once(trainer, "optim_step_async", types.AdamParams(learning_rate=1e-3))
        self.call(trainer, "forward_backward_custom", [datum()], own_loss)
        state = resolved(trainer.save_state("first")).path
        self.call(trainer, "save_state", "again", overwrite=True)
        self.call(trainer, "load_state", state)
        self.call(trainer, "load_state_with_optimizer", state)
        weights = self.call(trainer, "save_weights_for_sampler", "weights").path
        self.call(trainer, "create_sampling_client", weights)
        self.call(trainer, "save_weights_and_get_sampling_client")
        external = self.call(trainer, "save_weights_external", "external")
        return state, weights, external and external.path

    def sample(self, sampler):
        params = types.SamplingParams(max_tokens=4, temperature=1.0)
        targets = types.TensorData(data=[-1, 9, 20, 7], dtype="int64", shape=[4, 1])
        for_each = {"num_samples": 2, "sampling_params": params}
        of_prompt = {"target_prompt_logprobs": targets, "prompt_alt_tokens_k": 2}
        self.call(sampler, "sample", prompt=PROMPT, **for_each, **of_prompt)
        self.call(sampler, "compute_logprobs", PROMPT)
        self.call(sampler, "get_base_model")
        self.call(sampler, "get_tokenizer")
        handle = self.call(sampler, "get_sampler_handle")
        if handle is not None:
            self.call(sampler, "from_sampler_handle", handle, api_key=self.key)

    def look(self, rest, trainer, state, weights, external):
        run = trainer.model_id
        session = run.split(":")[0]
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.call(rest, "get_server_capabilities")
        self.call(rest, "whoami")
        self.call(rest, "list_training_runs")
        self.call(rest, "get_training_run", run)
        self.call(rest, "get_training_run_by_tinker_path", state)
        self.call(rest, "list_checkpoints", run)
        self.call(rest, "list_user_checkpoints")
        self.call(rest, "get_weights_info_by_tinker_path", state)
        self.call(rest, "get_session", session)
        self.call(rest, "list_sessions")
        self.call(rest, "get_sampler", f"{session}:sample:0")
        self.call(rest, "set_checkpoint_ttl_from_tinker_path", state, 3600)
        self.call(rest, "publish_checkpoint_from_tinker_path", state)
        self.call(rest, "unpublish_checkpoint_from_tinker_path", state)
        self.call(rest, "get_external_weights_urls", external)
        self.call(rest, "get_checkpoint_archive_url", run, "weights/first")
        self.call(rest, "get_checkpoint_archive_url_from_tinker_path", weights)
        self.call(rest, "assign_session_project", session, "project")
        self.call(rest, "copy_weights", state, "project")
        self.call(rest, "export_session_trace", session)
        self.call(rest, "get_audit_log", day=date(2026, 1, 1))
        self.call(rest, "get_billing_usage", today, today + timedelta(days=1))
        self.call(rest, "get_current_checkpoint_storage_usage")
        asked = getattr(types, "SessionSearchRequest", dict)
        self.call(rest, "search_sessions", asked())
        self.deleted(rest, run, weights, trainer)

    def administer(self, admin):
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.call(admin, "get_audit_log", day=date(2026, 1, 1))
        self.call(admin, "get_billing_usage", today, today + timedelta(days=1))
        self.call(admin, "get_current_checkpoint_storage_usage")

    def deleted(self, rest, run, weights, trainer):
        """Each form has something of its own to delete."""
        for method in ("delete_checkpoint", "delete_checkpoint_async"):
            name = f"gone-{method.count('_')}"
            resolved(trainer.save_state(name))
            self.once(rest, method, run, f"weights/{name}")
        for method in (
            "delete_checkpoint_from_tinker_path",
            "delete_checkpoint_from_tinker_path_async",
        ):
            name = f"gone-{method.count('_')}"
            self.once(rest, method, resolved(trainer.save_state(name)).path)

    def once(self, client, method, *args):
        try:
            resolved(getattr(client, method)(*args))
        except Exception as error:  # noqa: BLE001
            self.results[f"{type(client).__name__}.{method}"] = f"{type(error).__name__}: {error}"
        else:
            self.results[f"{type(client).__name__}.{method}"] = "works"


def client_class(kind):
    """Older versions have some of them elsewhere."""
    return getattr(tinker, kind, None) or getattr(tinker.lib.public_interfaces.rest_client, kind)


def public_methods():
    return [
        f"{kind}.{name}"
        for kind in CLASSES
        for name, _ in inspect.getmembers(client_class(kind), callable)
        if not name.startswith("_")
        and (name not in NOT_REQUESTS or f"{kind}.{name}" == "ServiceClient.close")
    ]


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.environ["TINKER_PROJECT_ID"] = "project"  # newer versions copy into none but a named one
    surface = Surface(*sys.argv[1:4])
    surface.run()
    told = {name: surface.results.get(name, "not tried") for name in sorted(public_methods())}
    print(json.dumps({"version": tinker.__version__, "methods": told}))


if __name__ == "__main__":
    main()
