"""vLLM starts, with its own choice of attention kernels or with Triton's, which all later steps then use."""

import subprocess
import sys
import time

from benchmarks.gpu.sampler import ask, finish, opened, requests, settings
from benchmarks.gpu.shapes import built
from benchmarks.gpu.step import Setting, own_output

_CHOICES = ("", "TRITON_ATTN")
_LIMIT_S = 110.0


def run(setting: Setting, shape: str) -> None:
    folder = built(shape, setting.scratch, setting.device)
    for backend in _CHOICES[: None if setting.on_gpu else 1]:
        began_s = time.monotonic()
        limit_s = _LIMIT_S if setting.on_gpu else None  # elsewhere there is no other choice to try
        if (error := _attempt(setting.device, shape, folder, backend, limit_s)) is None:
            took_s = time.monotonic() - began_s
            kernels = backend or "those that vLLM chooses"
            setting.report(**{"attention kernels": kernels, "s to first answers": took_s})
            setting.report(attention=backend)
            return
        setting.report(
            **{
                "did not start with attention kernels": backend or "those that vLLM chooses",
                "reason": error,
            }
        )
    raise SystemExit("vLLM does not start")


def _attempt(
    device: str, shape: str, folder: str, backend: str, limit_s: float | None
) -> str | None:
    """In a process of its own, as what it took of the GPU's memory goes with it; None: it works."""
    command = [sys.executable, "-m", __name__, device, shape, folder, backend]
    try:
        done = subprocess.run(
            command, stderr=subprocess.PIPE, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"longer than {limit_s:.0f} s"
    print(done.stderr, file=sys.stderr)
    return None if done.returncode == 0 else done.stderr.strip()[-200:].replace("\n", " ")


def main() -> None:
    device, shape, folder, backend = sys.argv[1:]
    own_output()
    own = settings(folder, device, "full", "float32" if device == "cpu" else "bfloat16", share=0.5)
    chosen = own.vllm.model_copy(update={"attention_backend": backend or None})
    engine = opened(folder, own.model_copy(update={"vllm": chosen}))
    from benchmarks.gpu.sampler import KEY

    engine.load(KEY, 0, None)
    ask(engine, requests(shape, 4, 16, 16))
    finish(engine)


if __name__ == "__main__":
    main()
