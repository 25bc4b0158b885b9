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
    """One endpoint per service in the nodes' zone. Each costs by the hour, so they are a setting."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        for name, service in SERVICES.items():
            ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=vpc,
                service=service,
                subnets=ec2.SubnetSelection(subnets=[subnet]),
                security_groups=[security_group],
                open=False,  # the group's own rules decide
                private_dns_enabled=True,
            )
