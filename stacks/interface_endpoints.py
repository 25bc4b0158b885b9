"""Endpoints of the AWS APIs that nodes and pods call, for networks without a way out."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

SERVICES = {
    "Ec2": ec2.InterfaceVpcEndpointAwsService.EC2,
    "EcrApi": ec2.InterfaceVpcEndpointAwsService.ECR,
    "EcrDocker": ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
    "Sts": ec2.InterfaceVpcEndpointAwsService.STS,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    "Monitoring": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING,
    "Ssm": ec2.InterfaceVpcEndpointAwsService.SSM,
    "SsmMessages": ec2.InterfaceVpcEndpointAwsService.SSM_MESSAGES,
    "Ec2Messages": ec2.InterfaceVpcEndpointAwsService.EC2_MESSAGES,
    "EksAuth": ec2.InterfaceVpcEndpointAwsService.EKS_AUTH,
    "SageMakerApi": ec2.InterfaceVpcEndpointAwsService.SAGEMAKER_API,
    "Prometheus": ec2.InterfaceVpcEndpointAwsService.PROMETHEUS_WORKSPACES,
}


class InterfaceEndpoints(Construct):
    """One endpoint per service in the nodes' zone. Each costs by the hour, so they are a setting.

    They answer the names of the public APIs for the whole VPC, so everything in it may reach them: CDK's
    kubectl function, for one, is not in the nodes' security group.
    """

    def __init__(self, scope: Construct, construct_id: str, *, vpc: ec2.IVpc, subnet: ec2.ISubnet) -> None:
        super().__init__(scope, construct_id)
        security_group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="Endpoints of AWS APIs", allow_all_outbound=False
        )
        security_group.add_ingress_rule(
            ec2.Peer.ipv4(vpc.vpc_cidr_block), ec2.Port.HTTPS, "HTTPS from the VPC"
        )
        for name, service in SERVICES.items():
            ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=vpc,
                service=service,
                subnets=ec2.SubnetSelection(subnets=[subnet]),
                security_groups=[security_group],
                open=False,  # the group has its rule already
                private_dns_enabled=True,
            )
