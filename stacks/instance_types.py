"""What the product needs to know of each ml.* instance type: size, GPUs, EFA, pod limit, price.

The figures lie in `instance_types.csv`, a row a type. They are the EC2 figures of the type without its `ml.`
prefix, as published in the data of aws/karpenter-provider-aws at 1d927085 (sizes and interfaces of
2026-08-21, on-demand prices of us-east-1 of 2026-07-20); every type is in the SageMaker API's list for
HyperPod (botocore 1.44.8). HyperPod's own ml.* prices are not published in machine-readable form, so cost
figures derived from this table are estimates. To add a type, add its row.
"""

import csv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One row of the table. HyperPod gives a node's pods one network interface, hence the pod limit."""

    name: str
    vcpus: int
    """With two threads a core, as EC2 sells it."""
    memory_gib: int
    gpus: int
    gpu_model: str | None
    gpu_memory_gib: int
    """Memory of one GPU."""
    efa_interfaces: int
    local_nvme_gb: int
    ipv4_per_interface: int
    usd_per_hour: float
    """EC2 on-demand, us-east-1, 2026-07-20."""

    @property
    def max_pods(self) -> int:
        """Pods with an address of their own: one interface, whose first address is the node's."""
        return self.ipv4_per_interface - 1


def _read(row: dict[str, str]) -> InstanceType:
    return InstanceType(
        name=row["name"],
        vcpus=int(row["vcpus"]),
        memory_gib=int(row["memory_gib"]),
        gpus=int(row["gpus"]),
        gpu_model=row["gpu_model"] or None,
        gpu_memory_gib=int(row["gpu_memory_gib"]),
        efa_interfaces=int(row["efa_interfaces"]),
        local_nvme_gb=int(row["local_nvme_gb"]),
        ipv4_per_interface=int(row["ipv4_per_interface"]),
        usd_per_hour=float(row["usd_per_hour"]),
    )


def _read_table(path: Path) -> dict[str, InstanceType]:
    with path.open(encoding="utf-8", newline="") as file:
        return {row["name"]: _read(row) for row in csv.DictReader(file)}


INSTANCE_TYPES = _read_table(Path(__file__).with_name("instance_types.csv"))
