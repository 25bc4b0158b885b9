"""Ids, ARNs and attributes in the formats that AWS gives them.

Other resources' schemas check these formats where the ids are used, so a value that flows to the wrong
property is refused. Formats follow the service authorization reference and the registry's patterns.
"""

import random
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ops.resource_types import ResourceSchema

_HEX = "0123456789abcdef"
_ALPHANUMERIC = string.ascii_lowercase + string.digits

_FORMATS: Mapping[str, str] = {
    "AWS::APS::RuleGroupsNamespace.Arn": (
        "arn:aws:aps:{region}:{account}:rulegroupsnamespace/ws-{uuid}/{Name}"
    ),
    "AWS::APS::Workspace.Arn": "arn:aws:aps:{region}:{account}:workspace/{WorkspaceId}",
    "AWS::APS::Workspace.PrometheusEndpoint": (
        "https://aps-workspaces.{region}.amazonaws.com/workspaces/{WorkspaceId}/"
    ),
    "AWS::APS::Workspace.WorkspaceId": "ws-{uuid}",
    "AWS::CloudWatch::Alarm.Arn": "arn:aws:cloudwatch:{region}:{account}:alarm:{AlarmName}",
    "AWS::CodeBuild::Project.Arn": "arn:aws:codebuild:{region}:{account}:project/{Name}",
    "AWS::CodeBuild::Project.Id": "{Name}",
    "AWS::EC2::EIP.AllocationId": "eipalloc-{hex17}",
    "AWS::EC2::EIP.PublicIp": "203.0.113.{byte}",
    "AWS::EC2::FlowLog.Id": "fl-{hex17}",
    "AWS::EC2::InternetGateway.InternetGatewayId": "igw-{hex17}",
    "AWS::EC2::NatGateway.NatGatewayId": "nat-{hex17}",
    "AWS::EC2::Route.CidrBlock": "{DestinationCidrBlock}",
    "AWS::EC2::RouteTable.RouteTableId": "rtb-{hex17}",
    "AWS::EC2::SecurityGroup.GroupId": "sg-{hex17}",
    "AWS::EC2::SecurityGroup.Id": "{GroupId}",
    "AWS::EC2::SecurityGroupEgress.Id": "sgr-{hex17}",
    "AWS::EC2::SecurityGroupIngress.Id": "sgr-{hex17}",
    "AWS::EC2::Subnet.SubnetId": "subnet-{hex17}",
    "AWS::EC2::SubnetRouteTableAssociation.Id": "rtbassoc-{hex17}",
    "AWS::EC2::VPC.DefaultSecurityGroup": "sg-{hex17}",
    "AWS::EC2::VPC.VpcId": "vpc-{hex17}",
    "AWS::EC2::VPCCidrBlock.Id": "vpc-cidr-assoc-{hex17}",
    "AWS::EC2::VPCEndpoint.Id": "vpce-{hex17}",
    "AWS::EC2::VPCGatewayAttachment.AttachmentType": "IGW",
    "AWS::ECR::Repository.Arn": "arn:aws:ecr:{region}:{account}:repository/{RepositoryName}",
    "AWS::ECR::Repository.RepositoryUri": "{account}.dkr.ecr.{region}.amazonaws.com/{RepositoryName}",
    "AWS::EKS::AccessEntry.AccessEntryArn": (
        "arn:aws:eks:{region}:{account}:access-entry/{ClusterName}/role/{account}/entry/{uuid}"
    ),
    "AWS::EKS::Addon.Arn": "arn:aws:eks:{region}:{account}:addon/{ClusterName}/{AddonName}/{uuid}",
    "AWS::EKS::Cluster.Arn": "arn:aws:eks:{region}:{account}:cluster/{Name}",
    "AWS::EKS::Cluster.CertificateAuthorityData": "Y2VydGlmaWNhdGU=",
    "AWS::EKS::Cluster.ClusterSecurityGroupId": "sg-{hex17}",
    "AWS::EKS::Cluster.Endpoint": "https://{hex32}.gr7.{region}.eks.amazonaws.com",
    "AWS::EKS::Cluster.OpenIdConnectIssuerUrl": "https://oidc.eks.{region}.amazonaws.com/id/{hex32}",
    "AWS::EKS::PodIdentityAssociation.AssociationArn": (
        "arn:aws:eks:{region}:{account}:podidentityassociation/{ClusterName}/{AssociationId}"
    ),
    "AWS::EKS::PodIdentityAssociation.AssociationId": "a-{alphanumeric17}",
    "AWS::Events::Rule.Arn": "arn:aws:events:{region}:{account}:rule/{Name}",
    "AWS::Events::Rule.RuleName": "{Name}",
    "AWS::FSx::DataRepositoryAssociation.AssociationId": "dra-{hex17}",
    "AWS::FSx::FileSystem.DNSName": "{Id}.fsx.{region}.amazonaws.com",
    "AWS::FSx::FileSystem.Id": "fs-{hex17}",
    "AWS::FSx::FileSystem.LustreMountName": "{alphanumeric8}",
    "AWS::Grafana::Workspace.Endpoint": "{Id}.grafana-workspace.{region}.amazonaws.com",
    "AWS::Grafana::Workspace.Id": "g-{alphanumeric10}",
    "AWS::Grafana::Workspace.Status": "ACTIVE",
    "AWS::IAM::InstanceProfile.Arn": "arn:aws:iam::{account}:instance-profile/{InstanceProfileName}",
    "AWS::IAM::ManagedPolicy.PolicyArn": "arn:aws:iam::{account}:policy/{ManagedPolicyName}",
    "AWS::IAM::Policy.Id": "{PolicyName}-{alphanumeric12}",
    "AWS::IAM::Role.Arn": "arn:aws:iam::{account}:role/{RoleName}",
    "AWS::IAM::Role.RoleId": "AROA{hex17}",
    "AWS::KMS::Key.Arn": "arn:aws:kms:{region}:{account}:key/{KeyId}",
    "AWS::KMS::Key.KeyId": "{uuid}",
    "AWS::Lambda::Function.Arn": "arn:aws:lambda:{region}:{account}:function:{FunctionName}",
    "AWS::Lambda::LayerVersion.LayerVersionArn": "arn:aws:lambda:{region}:{account}:layer:{logical_id}:1",
    "AWS::Lambda::Permission.Id": "{logical_id}-{alphanumeric12}",
    "AWS::Logs::LogGroup.Arn": "arn:aws:logs:{region}:{account}:log-group:{LogGroupName}:*",
    "AWS::S3::Bucket.Arn": "arn:aws:s3:::{BucketName}",
    "AWS::S3::Bucket.DomainName": "{BucketName}.s3.amazonaws.com",
    "AWS::S3::Bucket.RegionalDomainName": "{BucketName}.s3.{region}.amazonaws.com",
    "AWS::SNS::Topic.TopicArn": "arn:aws:sns:{region}:{account}:{TopicName}",
    "AWS::SNS::Subscription.Arn": "{TopicArn}:{uuid}",
    "AWS::SQS::Queue.Arn": "arn:aws:sqs:{region}:{account}:{QueueName}",
    "AWS::SQS::Queue.QueueUrl": "https://sqs.{region}.amazonaws.com/{account}/{QueueName}",
    "AWS::SageMaker::Cluster.ClusterArn": "arn:aws:sagemaker:{region}:{account}:cluster/{alphanumeric12}",
    "AWS::SageMaker::Cluster.ClusterStatus": "InService",
    "AWS::SageMaker::Domain.DomainArn": "arn:aws:sagemaker:{region}:{account}:domain/{DomainId}",
    "AWS::SageMaker::Domain.DomainId": "d-{alphanumeric12}",
    "AWS::SageMaker::Domain.HomeEfsFileSystemId": "fs-{hex17}",
    "AWS::SageMaker::UserProfile.UserProfileArn": (
        "arn:aws:sagemaker:{region}:{account}:user-profile/{DomainId}/{UserProfileName}"
    ),
    "AWS::SSM::Parameter.Arn": "arn:aws:ssm:{region}:{account}:parameter/{Name}",
    "AWS::SecretsManager::Secret.Id": (
        "arn:aws:secretsmanager:{region}:{account}:secret:{Name}-{alphanumeric6}"
    ),
    "AWS::StepFunctions::StateMachine.Arn": (
        "arn:aws:states:{region}:{account}:stateMachine:{StateMachineName}"
    ),
    "AWS::StepFunctions::StateMachine.Name": "{StateMachineName}",
}

_REFS: Mapping[str, str] = {
    "AWS::EC2::EIP": "PublicIp",
    "AWS::EC2::Route": "RouteTableId",
    "AWS::EC2::VPCGatewayAttachment": "VpcId",
    "AWS::Events::Rule": "RuleName",
    "AWS::Lambda::Permission": "Id",
    "AWS::SageMaker::UserProfile": "UserProfileName",
}
"""Types whose Ref is not the primary identifier."""

_NAME_PROPERTIES: Mapping[str, str] = {
    "AWS::CodeBuild::Project": "Name",
    "AWS::Events::Rule": "Name",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::SecretsManager::Secret": "Name",
    "AWS::StepFunctions::StateMachine": "StateMachineName",
}
"""Optional names that are not the primary identifier: AWS makes one up, and ARNs contain it."""

_LOWER_CASE = {"AWS::S3::Bucket", "AWS::ECR::Repository"}
_LONGEST_NAME = 63


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What AWS decides when it creates a resource."""

    primary: tuple[str, ...]
    """Values of the primary identifier: no two live resources of a type share them."""
    ref: str
    attributes: Mapping[str, Any]
    """Dotted attribute name -> value, read-only properties and generated names."""


@dataclass(frozen=True, kw_only=True)
class IdentityFactory:
    """Makes identities of one account and region, reproducibly for one `chance`."""

    account: str
    region: str
    chance: random.Random

    def create(
        self, *, schema: ResourceSchema, stack: str, logical_id: str, properties: Mapping[str, Any]
    ) -> Identity:
        """The identity of a new resource with these resolved properties."""
        attributes: dict[str, Any] = {}
        known = {**self._variables(), **properties, "logical_id": logical_id}
        for name in self._generated_names(schema, properties):
            known[name] = attributes[name] = self.name(schema.resource_type, stack, logical_id)
        for name in self._in_order(schema):
            template = _FORMATS.get(f"{schema.resource_type}.{name}", f"{name.lower()}-{{alphanumeric12}}")
            attributes[name] = known[name] = template.format_map(known)
        primary = tuple(str(known[name]) for name in schema.primary_identifier)
        ref = str(known[_REFS[schema.resource_type]]) if schema.resource_type in _REFS else "|".join(primary)
        return Identity(primary=primary, ref=ref, attributes=attributes)

    def name(self, resource_type: str, stack: str, logical_id: str) -> str:
        """A name as CloudFormation makes it up: stack, logical id, random end."""
        suffix = self._random(_ALPHANUMERIC, 12)
        name = f"{stack}-{logical_id}"[: _LONGEST_NAME - 13] + f"-{suffix}"
        return name.lower() if resource_type in _LOWER_CASE else name

    def _generated_names(self, schema: ResourceSchema, properties: Mapping[str, Any]) -> list[str]:
        names = [name for name in schema.primary_identifier if name not in schema.read_only]
        if schema.resource_type in _NAME_PROPERTIES:
            names.append(_NAME_PROPERTIES[schema.resource_type])
        return [name for name in names if name not in properties]

    @staticmethod
    def _in_order(schema: ResourceSchema) -> list[str]:
        """Read-only names, those first whose value others contain."""
        read_only = schema.read_only

        def uses_others(name: str) -> bool:
            template = _FORMATS.get(f"{schema.resource_type}.{name}", "")
            return any("{" + other + "}" in template for other in read_only)

        return sorted(read_only, key=uses_others)

    def _variables(self) -> dict[str, str]:
        hexadecimal = self._random(_HEX, 32)
        widths = (6, 8, 10, 12, 17)
        return {
            "account": self.account,
            "region": self.region,
            "byte": str(self.chance.randrange(1, 255)),
            "hex17": self._random(_HEX, 17),
            "hex32": hexadecimal.upper(),
            "uuid": "-".join(
                (hexadecimal[:8], hexadecimal[8:12], hexadecimal[12:16], hexadecimal[16:20], hexadecimal[20:])
            ),
            **{f"alphanumeric{width}": self._random(_ALPHANUMERIC, width) for width in widths},
        }

    def _random(self, alphabet: str, length: int) -> str:
        return "".join(self.chance.choices(alphabet, k=length))
