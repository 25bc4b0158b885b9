"""Room for one more VPC, address, gateway, interface and file system."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from botocore.exceptions import ClientError

from ops.aws import Aws, error_code
from ops.checks.model import Check, Context, Outcome, failed, passed, unknown, warning
from stacks.names import DEPLOYMENT_TAG


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A quota of the region and how its use is counted."""

    label: str
    service: str
    code: str
    needed: int
    in_use: Callable[[Aws], int]


def _count(service: str, operation: str, key: str) -> Callable[[Aws], int]:
    return lambda aws: len(aws.pages(service, operation, key))


def _addresses(aws: Aws) -> int:
    return len(aws.client("ec2").describe_addresses()["Addresses"])


LIMITS = (
    Limit(
        label="VPCs",
        service="vpc",
        code="L-F678F1CE",
        needed=1,
        in_use=_count("ec2", "describe_vpcs", "Vpcs"),
    ),
    Limit(label="Elastic IPs", service="ec2", code="L-0263D0A3", needed=1, in_use=_addresses),
    Limit(
        label="network interfaces",
        service="vpc",
        code="L-DF5E4CA3",
        # Nodes, control plane, NAT gateway, file system, functions and endpoints; pods share the nodes'.
        needed=60,
        in_use=_count("ec2", "describe_network_interfaces", "NetworkInterfaces"),
    ),
)


def limits(context: Context) -> Iterator[Outcome]:
    """An existing deployment already holds its share, so nothing more is needed then."""
    exists = _is_deployed(context)
    for limit in LIMITS:
        quota, used = _quota(context.aws, limit), limit.in_use(context.aws)
        needed = 0 if exists else limit.needed
        fact = f"{limit.label}: {used} of {quota:g} in use, {needed} more needed"
        if used + needed > quota:
            yield failed(fact, f"Delete unused ones, or ask for more: quota {limit.code} of {limit.service}.")
        else:
            yield passed(fact)


def _is_deployed(context: Context) -> bool:
    tag = {"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [context.settings.name]}
    return bool(context.aws.client("ec2").describe_vpcs(Filters=[tag])["Vpcs"])


def _quota(aws: Aws, limit: Limit) -> float:
    quotas, wanted = aws.client("service-quotas"), {"ServiceCode": limit.service, "QuotaCode": limit.code}
    try:
        return float(quotas.get_service_quota(**wanted)["Quota"]["Value"])
    except ClientError as error:
        if error_code(error) != "NoSuchResourceException":
            raise
        return float(quotas.get_aws_default_service_quota(**wanted)["Quota"]["Value"])


def lustre_storage(context: Context) -> Iterator[Outcome]:
    """The quota is in GiB and its name tells type and disk, so it is looked up by name."""
    quotas = context.aws.pages("service-quotas", "list_service_quotas", "Quotas", ServiceCode="fsx")
    named = [row for row in quotas if "Lustre" in row["QuotaName"] and "Persistent 2" in row["QuotaName"]]
    ssd = [row for row in named if "SSD" in row["QuotaName"]]
    if not ssd:
        yield unknown(
            "no quota for Lustre Persistent 2 on SSD is listed",
            "Look for it in the Service Quotas console, FSx.",
        )
        return
    systems = context.aws.pages("fsx", "describe_file_systems", "FileSystems")
    used = sum(system["StorageCapacity"] for system in systems if system["FileSystemType"] == "LUSTRE")
    ours = any(_is_ours(system.get("Tags", []), context.settings.name) for system in systems)
    needed = 0 if ours else context.settings.storage.capacity_gib
    quota = ssd[0]["Value"]
    fact = f"Lustre storage: {used} of {quota:g} GiB in use, {needed} more needed"
    if used + needed > quota:
        yield failed(fact, f'Ask for more of "{ssd[0]["QuotaName"]}" in Service Quotas, FSx.')
    else:
        yield passed(fact)


def _is_ours(tags: list[dict[str, str]], deployment: str) -> bool:
    return {"Key": DEPLOYMENT_TAG, "Value": deployment} in tags


def api_access(context: Context) -> Iterator[Outcome]:
    kubernetes = context.settings.kubernetes
    open_networks = [str(cidr) for cidr in kubernetes.public_access_cidrs if cidr.prefixlen == 0]
    if not kubernetes.is_public:
        yield warning("the Kubernetes API is private", "Run kubectl and `ops submit` from inside the VPC.")
    elif open_networks or not kubernetes.public_access_cidrs:
        yield warning(
            "the Kubernetes API is reachable from everywhere, behind IAM",
            "Name your networks in kubernetes.public_access_cidrs.",
        )
    else:
        yield passed("the Kubernetes API is reachable from the named networks")


CHECKS = (
    Check(name="network-limits", ask=limits),
    Check(name="lustre-storage", ask=lustre_storage),
    Check(name="api-access", ask=api_access, needs_credentials=False),
)
