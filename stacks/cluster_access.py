"""Who may do what on the Kubernetes cluster, as EKS access entries."""

from collections.abc import Sequence

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct


class ClusterAccess(Construct):
    """Administrators get the whole cluster; researchers get HyperPod's training policy in one namespace.

    That policy covers RayCluster, RayJob and dashboard connections. The name is AWS's own spelling.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        admin_arns: Sequence[str],
        researcher_arns: Sequence[str],
        namespace: str,
    ) -> None:
        super().__init__(scope, construct_id)
        admin_policy = eks.AccessPolicy.from_access_policy_name(
            "AmazonEKSClusterAdminPolicy", access_scope_type=eks.AccessScopeType.CLUSTER
        )
        researcher_policy = eks.AccessPolicy.from_access_policy_name(
            "AmazonSagemakerHyperpodTrainingPolicy",
            access_scope_type=eks.AccessScopeType.NAMESPACE,
            namespaces=[namespace],
        )
        for role, arns, policy in (
            ("Admin", admin_arns, admin_policy),
            ("Researcher", researcher_arns, researcher_policy),
        ):
            for index, arn in enumerate(arns):
                eks.AccessEntry(
                    self, f"{role}{index}", cluster=cluster, principal=arn, access_policies=[policy]
                )
