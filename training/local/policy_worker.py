"""SkyRL's FSDP policy worker on gloo: the model, its shards, its optimizer and its checkpoints, without a
GPU.

Replaces the process group (gloo for NCCL) and the device of `FSDPPolicyWorkerBase`; init_model, forward,
forward_backward, optim_step, the adapter sync through a folder, save and load are SkyRL's own. NOT rehearsed:
NCCL, offloading between GPU and host, sequence packing, bfloat16.
"""

from datetime import timedelta
from typing import Any

import ray
import torch

from training.local import cuda_stand_ins
from training.local.threads import threads_each
from training.local.tiny_model import use_single_patch_attention

cuda_stand_ins.install()

from skyrl.backends.skyrl_train.distributed.dispatch import MeshRank  # noqa: E402
from skyrl.backends.skyrl_train.workers.fsdp.fsdp_worker import FSDPPolicyWorkerBase  # noqa: E402
from skyrl.env_vars import SKYRL_WORKER_NCCL_TIMEOUT_IN_S  # noqa: E402


class CpuPolicyWorkerBase(FSDPPolicyWorkerBase):  # type: ignore[misc]  # skyrl has no types
    """One rank of the policy."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        torch.set_num_threads(threads_each(self._world_size))
        use_single_patch_attention()

    def init_worker_process_group(self) -> None:
        """Join the gloo group; the mesh has the shape that SkyRL gives it."""
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group(
                backend="gloo", timeout=timedelta(seconds=SKYRL_WORKER_NCCL_TIMEOUT_IN_S)
            )
        self.device_mesh = torch.distributed.device_mesh.init_device_mesh(
            "cpu", mesh_shape=(self._world_size, 1), mesh_dim_names=("dp", "sp")
        )
        self.mesh_rank = MeshRank(
            dp=self.device_mesh.get_local_rank(mesh_dim="dp"),
            sp=0,
            tp=0,
            pp=0,
            world_size=self._world_size,
            dp_size=self._world_size,
            pp_size=1,
        )

    def offload_to_cpu(self, offload_optimizer: bool = True, offload_model: bool = True) -> None:
        """Nothing to move."""

    def backload_to_gpu(self, backload_optimizer: bool = True, backload_model: bool = True) -> None:
        """Nothing to move."""

    async def init_weight_sync_state(self, inference_engine_client: Any, inference_engine_cfg: Any) -> None:
        """Remember the client; the adapter goes through the sync folder, so no rendezvous is needed."""
        self._weight_sync_inference_client = inference_engine_client
        torch.distributed.barrier()


CpuPolicyWorker = ray.remote(num_gpus=1)(CpuPolicyWorkerBase)
