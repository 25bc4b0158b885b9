"""What the product needs to know of each ml.* instance type: size, GPUs, EFA, pod limit, price.

Sizes, network cards and on-demand prices are the EC2 figures of the type without its `ml.` prefix, as
published in the data of aws/karpenter-provider-aws (2026-07-20, us-east-1). HyperPod's own ml.* prices are
not published in machine-readable form, so cost figures derived from this table are estimates.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One row of the table. HyperPod gives a node's pods one network interface, hence the pod limit."""

    name: str
    vcpus: int
    memory_gib: int
    gpus: int = 0
    gpu_model: str | None = None
    gpu_memory_gib: int = 0
    """Memory of one GPU."""
    efa_interfaces: int = 0
    local_nvme_gb: int = 0
    ipv4_per_interface: int
    usd_per_hour: float
    """EC2 on-demand, us-east-1, 2026-07-20."""

    @property
    def max_pods(self) -> int:
        """Pods with an address of their own: one interface, whose first address is the node's."""
        return self.ipv4_per_interface - 1


_RTX_PRO_6000 = "RTX PRO 6000 Blackwell Server Edition"

INSTANCE_TYPES: dict[str, InstanceType] = {
    row.name: row
    for row in (
        InstanceType(
            name="ml.g7e.12xlarge",
            vcpus=48,
            memory_gib=512,
            gpus=2,
            gpu_model=_RTX_PRO_6000,
            gpu_memory_gib=96,
            efa_interfaces=1,
            local_nvme_gb=3800,
            ipv4_per_interface=64,
            usd_per_hour=8.28608,
        ),
        InstanceType(
            name="ml.r5d.16xlarge",
            vcpus=64,
            memory_gib=512,
            local_nvme_gb=2400,
            ipv4_per_interface=50,
            usd_per_hour=4.608,
        ),
    )
}
