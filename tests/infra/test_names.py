"""Physical names: each is one that another system looks up; everything else is named by CloudFormation."""

import pytest

from tests.infra.conftest import Template

NAME_PROPERTIES = {
    "Alias",
    "BucketName",
    "ClusterName",
    "FunctionName",
    "GroupName",
    "LogGroupName",
    "ManagedPolicyName",
    "Name",
    "RepositoryName",
    "RoleName",
    "StateMachineName",
}
EXPECTED = {
    "AWS::APS::Workspace": {"Alias"},  # what people see in the console's list
    "AWS::ECR::Repository": {"RepositoryName"},  # people pull and read it
    "AWS::EKS::Cluster": {"Name"},  # names the log group that EKS writes to
    "AWS::Logs::LogGroup": {"LogGroupName"},  # that log group
    "AWS::S3::Bucket": {"BucketName"},  # HyperPod's managed policy reads sagemaker-* only
    "AWS::SageMaker::Cluster": {"ClusterName"},  # names HyperPod's log group
}
REFERENCES = {
    "AWS::CloudFormation::CustomResource",
    "AWS::EC2::FlowLog",
    "AWS::EKS::AccessEntry",
    "AWS::EKS::Addon",
    "AWS::EKS::PodIdentityAssociation",
}
"""Types that name another resource here, not themselves."""


def test_physical_names_are_few(walkthrough: dict[str, Template]) -> None:
    named: dict[str, set[str]] = {}
    for template in walkthrough.values():
        for resource in template["Resources"].values():
            resource_type = resource["Type"]
            names = NAME_PROPERTIES & set(resource.get("Properties", {}))
            if names and resource_type not in REFERENCES and not resource_type.startswith("Custom::"):
                named.setdefault(resource_type, set()).update(names)
    assert named == EXPECTED


@pytest.mark.parametrize("part", ["cluster", "hyperpod"])
def test_both_clusters_carry_the_deployments_name(walkthrough: dict[str, Template], part: str) -> None:
    resources = walkthrough[part]["Resources"].values()
    names = [
        resource["Properties"].get("Name") or resource["Properties"].get("ClusterName")
        for resource in resources
        if resource["Type"] in {"AWS::EKS::Cluster", "AWS::SageMaker::Cluster"}
    ]
    assert names == ["maze-grpo"]
