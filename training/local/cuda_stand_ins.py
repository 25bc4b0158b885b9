"""What SkyRL's FSDP worker expects of a GPU host, on a host that has none.

Replaces: the CUDA device (all tensors stay in memory), NCCL (gloo instead) and the two functions of
flash-attn that `skyrl.backends.skyrl_train.workers.model_wrapper` imports but calls only with
remove_microbatch_padding. NOT rehearsed: any CUDA call, offloading, NCCL, flash attention, mixed precision.
"""

import functools
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

CPU = torch.device("cpu")


def pretend_flash_attention() -> None:
    """Let `from flash_attn.bert_padding import pad_input, unpad_input` work; calling either raises."""
    if "flash_attn" in sys.modules:
        return
    package, module = _empty_module("flash_attn", is_package=True), _empty_module("flash_attn.bert_padding")
    module.pad_input = module.unpad_input = _not_on_cpu  # type: ignore[attr-defined]
    package.bert_padding = module  # type: ignore[attr-defined]
    sys.modules |= {"flash_attn": package, "flash_attn.bert_padding": module}


def _empty_module(name: str, *, is_package: bool = False) -> types.ModuleType:
    module = types.ModuleType(name)
    # Libraries look packages up by their spec; one without a spec makes that look-up raise.
    module.__spec__ = importlib.machinery.ModuleSpec(name, loader=None, is_package=is_package)
    return module


def _not_on_cpu(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError("flash-attn is not available on a CPU; set trainer.remove_microbatch_padding=false")


def pretend_cuda() -> None:
    """Point the CUDA calls of SkyRL's worker at the CPU, in this process."""
    nothing: Callable[..., None] = lambda *_, **__: None  # noqa: E731
    torch.cuda.current_device = lambda: CPU  # type: ignore[assignment,return-value]
    torch.cuda.set_device = nothing
    torch.cuda.synchronize = nothing
    torch.cuda.empty_cache = nothing


def keep_fsdp_on_cpu() -> None:
    """Replace the two functions of SkyRL's FSDP code that name the CUDA device literally."""
    # After pretend_flash_attention: this imports flash_attn.
    from skyrl.backends.skyrl_train.distributed import fsdp_strategy, fsdp_utils  # noqa: PLC0415

    fsdp_utils._sync_non_persistent_buffers = _broadcast_buffers
    fsdp_strategy.create_device_mesh = _cpu_mesh


def _cpu_mesh(world_size: int, fsdp_size: int) -> DeviceMesh:
    if 0 < fsdp_size < world_size:
        return init_device_mesh("cpu", (world_size // fsdp_size, fsdp_size), mesh_dim_names=("ddp", "fsdp"))
    return init_device_mesh("cpu", (world_size,), mesh_dim_names=("fsdp",))


def _broadcast_buffers(model: torch.nn.Module, _: dict[str, Any]) -> None:
    """Give every rank the buffers that no state dict holds (rotary frequencies), from rank 0."""
    for module in model.modules():
        for name in sorted(module._non_persistent_buffers_set):
            buffer = module._buffers.get(name)
            if buffer is None:
                continue
            on_rank_0 = torch.distributed.get_rank() == 0
            value = buffer.detach().to(CPU) if on_rank_0 else torch.empty_like(buffer, device=CPU)
            torch.distributed.broadcast(value, src=0)
            module._buffers[name] = value


@functools.cache
def install() -> None:
    """Everything above, once a process."""
    pretend_flash_attention()
    pretend_cuda()
    keep_fsdp_on_cpu()
