"""Stack: what everything else stands on - addresses, the security group, the key."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.encryption_key import EncryptionKey
from stacks.interface_endpoints import InterfaceEndpoints
from stacks.node_security_group import NodeSecurityGroup
from stacks.removal import removal_policy
from stacks.settings import Settings
from stacks.vpc import ClusterVpc


class NetworkStack(Stack):
    """VPC, the nodes' subnet and security group, and the key that encrypts logs and Kubernetes secrets."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: Settings, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, **kwargs)
        network = settings.network
        self.key = EncryptionKey(
            self,
            "LogsAndSecrets",
            description=f"{settings.name}: logs and Kubernetes secrets",
            removal_policy=removal_policy(settings.removal),
        ).key
        cluster_vpc = ClusterVpc(
            self,
            "Network",
            cidr=str(network.vpc_cidr),
            plan=settings.subnet_plan,
            zone_ids=network.control_plane_zone_ids,
            node_zone_id=network.hyperpod_zone_id,
            flow_logs=logs.LogGroup(self, "FlowLogs"),
        )
        self.vpc = cluster_vpc.vpc
        self.control_plane_subnets = cluster_vpc.control_plane_subnets
        self.node_subnet = cluster_vpc.node_subnet
        self.security_group = NodeSecurityGroup(self, "Nodes", vpc=self.vpc).security_group
        if network.interface_endpoints:
            InterfaceEndpoints(self, "Endpoints", vpc=self.vpc, subnet=self.node_subnet)
