"""Stack: the cluster services that need nodes."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from stacks.addon_versions import ADDON_VERSIONS
from stacks.file_system import FileSystem
from stacks.node_addons import NodeAddons
from stacks.settings import Settings


class AddonsStack(Stack):
    """DNS, certificates, metrics and the FSx driver, after HyperPod's nodes are ready."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        cluster: eks.ICluster,
        file_system: FileSystem,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        NodeAddons(
            self,
            "Addons",
            cluster=cluster,
            file_system_arn=file_system.arn,
            versions=ADDON_VERSIONS[settings.kubernetes.version],
        )
