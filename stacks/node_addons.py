"""EKS add-ons whose pods need a node: created after the nodes, deleted before them."""

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.addon_versions import AddonVersions
from stacks.pod_role import pod_role


class NodeAddons(Construct):
    """DNS, certificates, metrics and the FSx driver. Earlier they would stay degraded and fail the deploy."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        versions: AddonVersions,
        file_system_arn: str,
    ) -> None:
        super().__init__(scope, construct_id)
        fsx_role = pod_role(self, "FsxCsiRole", cluster=cluster)
        fsx_policy = iam.ManagedPolicy(
            self,
            "FsxCsiPolicy",
            roles=[fsx_role],
            statements=[
                # The one volume is provisioned statically, so the driver creates nothing.
                iam.PolicyStatement(actions=["fsx:DescribeFileSystems"], resources=[file_system_arn])
            ],
        )
        fsx_identity = eks.CfnAddon.PodIdentityAssociationProperty(
            service_account="fsx-csi-controller-sa", role_arn=fsx_role.role_arn
        )
        for name, version, identities in (
            ("coredns", versions.coredns, None),
            ("cert-manager", versions.cert_manager, None),
            ("metrics-server", versions.metrics_server, None),
            ("aws-fsx-csi-driver", versions.fsx_csi_driver, [fsx_identity]),
        ):
            addon = eks.CfnAddon(
                self,
                name,
                cluster_name=cluster.cluster_name,
                addon_name=name,
                addon_version=version,
                resolve_conflicts="OVERWRITE",
                pod_identity_associations=identities,
            )
            # An association alone does not wait for what the role may do.
            addon.node.add_dependency(fsx_role, fsx_policy)
