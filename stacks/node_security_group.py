"""The security group of nodes, control-plane interfaces and file system."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

LUSTRE_PORTS = ((988, 988), (1018, 1023))


class NodeSecurityGroup(Construct):
    """Everything may flow between members; out to anywhere; in from nowhere else.

    EFA's operating-system bypass needs all traffic between members allowed explicitly in both directions:
    a rule for 0.0.0.0/0 does not count. The control plane's interfaces join the group, so kubelets and
    webhooks are reachable both ways. Lustre's ports are covered by the first rule; they are listed on their
    own because FSx checks for them when it creates a file system.
    """

    def __init__(self, scope: Construct, construct_id: str, *, vpc: ec2.IVpc) -> None:
        super().__init__(scope, construct_id)
        self.security_group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=vpc,
            description="HyperPod nodes, EKS control plane and FSx for Lustre",
            allow_all_outbound=True,
        )
        group_id = self.security_group.security_group_id
        ec2.CfnSecurityGroupIngress(
            self,
            "AllFromMembers",
            group_id=group_id,
            source_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA, kubelet, webhooks: everything from members",
        )
        ec2.CfnSecurityGroupEgress(
            self,
            "AllToMembers",
            group_id=group_id,
            destination_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA: everything to members, explicitly",
        )
        for low, high in LUSTRE_PORTS:
            ec2.CfnSecurityGroupIngress(
                self,
                f"Lustre{low}",
                group_id=group_id,
                source_security_group_id=group_id,
                ip_protocol="tcp",
                from_port=low,
                to_port=high,
                description="FSx for Lustre",
            )
