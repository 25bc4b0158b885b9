"""Metrics workspace, Grafana and the HyperPod observability add-on."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Environment
from aws_cdk.assertions import Template

from stacks.cluster import ClusterStack
from stacks.dashboards.content import PLACEHOLDER, grafana_content
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.observability_addon import NAMESPACE, SERVICE_ACCOUNT
from stacks.settings import GrafanaAuthentication, MetricsLevel, load_settings
from stacks.storage import StorageStack
from tests.infra.conftest import flagged_app

type Build = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def build() -> Build:
    """Synthesizes the observability stack of the walkthrough with changed observability settings."""

    def build(**changes: Any) -> dict[str, Any]:
        app, env = flagged_app(), Environment(region="us-east-2")
        settings = load_settings()
        network = NetworkStack(app, "network", settings=settings, env=env)
        storage = StorageStack(
            app,
            "storage",
            settings=settings,
            vpc=network.vpc,
            subnet=network.node_subnet,
            security_group=network.security_group,
            env=env,
        )
        observability = settings.observability.model_copy(update=changes)
        stack = ObservabilityStack(
            app,
            "observability",
            settings=settings.model_copy(update={"observability": observability}),
            cluster=ClusterStack(app, "cluster", settings=settings, network=network, env=env).cluster,
            file_system=storage.file_system,
            env=env,
        )
        return dict(Template.from_stack(stack).to_json())

    return build


def of_type(template: dict[str, Any], resource_type: str) -> list[dict[str, Any]]:
    return [each for each in template["Resources"].values() if each["Type"] == resource_type]


def configuration(template: dict[str, Any]) -> dict[str, Any]:
    """The add-on's configuration with every deploy-time value replaced by its place in the join."""
    (addon,) = of_type(template, "AWS::EKS::Addon")
    parts = addon["Properties"]["ConfigurationValues"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else "?" for part in parts)
    return dict(json.loads(text))


def test_addon_writes_to_the_workspace(build: Build) -> None:
    values = configuration(build())
    assert values["ampWorkspace"]["prometheusEndpoint"] == "https://?/workspaces/?"
    assert values["metricsProvider"]["acceleratedComputeMetrics"] == {
        "level": "ADVANCED",
        "scrapeInterval": 30,
    }
    assert "amgWorkspace" not in values


def test_endpoint_in_the_configuration_has_no_trailing_slash(build: Build) -> None:
    endpoint = build()["Outputs"]["PrometheusEndpoint"]["Value"]
    attribute = "https://aps-workspaces.us-east-2.amazonaws.com/workspaces/ws-0123/"
    assert evaluate(endpoint, attribute) == attribute.removesuffix("/")
    assert evaluate(endpoint, attribute.removesuffix("/")) == attribute.removesuffix("/")


def evaluate(value: Any, attribute: str) -> Any:
    """CloudFormation's result of Join, Select and Split, with the one attribute given."""
    if not isinstance(value, dict):
        return value
    ((function, argument),) = value.items()
    if function == "Fn::GetAtt":
        return attribute
    if function == "Fn::Split":
        return evaluate(argument[1], attribute).split(argument[0])
    if function == "Fn::Select":
        return evaluate(argument[1], attribute)[int(argument[0])]
    assert function == "Fn::Join"
    return argument[0].join(evaluate(part, attribute) for part in argument[1])


def test_levels_of_the_settings_are_all_there_is(build: Build) -> None:
    values = configuration(build(metrics={"rayMetrics": MetricsLevel.BASIC}))
    assert values["metricsProvider"] == {"rayMetrics": {"level": "BASIC", "scrapeInterval": 30}}


def test_collector_has_its_identity_and_its_rights_before_it_starts(build: Build) -> None:
    template = build()
    (identity,) = of_type(template, "AWS::EKS::PodIdentityAssociation")
    assert identity["Properties"]["Namespace"] == NAMESPACE
    assert identity["Properties"]["ServiceAccount"] == SERVICE_ACCOUNT
    (addon,) = of_type(template, "AWS::EKS::Addon")
    needed = {
        name
        for name, resource in template["Resources"].items()
        if resource["Type"] in ("AWS::EKS::PodIdentityAssociation", "AWS::IAM::Policy", "AWS::IAM::Role")
    }
    assert needed == set(addon["DependsOn"])


def test_collector_role_is_for_pods_of_this_cluster(build: Build) -> None:
    (role,) = of_type(build(), "AWS::IAM::Role")
    for statement in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
        assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
        assert "aws:SourceArn" in statement["Condition"]["ArnEquals"]


def test_without_sign_in_there_is_no_grafana(build: Build) -> None:
    assert of_type(build(), "AWS::Grafana::Workspace") == []


@pytest.mark.parametrize(
    ("authentication", "provider"),
    [(GrafanaAuthentication.IDENTITY_CENTER, "AWS_SSO"), (GrafanaAuthentication.SAML, "SAML")],
)
def test_grafana_reads_this_workspace_and_writes_to_its_topic(
    build: Build, authentication: GrafanaAuthentication, provider: str
) -> None:
    template = build(grafana_authentication=authentication)
    (workspace,) = of_type(template, "AWS::Grafana::Workspace")
    assert workspace["Properties"]["AuthenticationProviders"] == [provider]
    assert workspace["Properties"]["PermissionType"] == "CUSTOMER_MANAGED"
    assert any("GrafanaRoleDefaultPolicy" in name for name in workspace["DependsOn"])
    (policy,) = (
        resource
        for name, resource in template["Resources"].items()
        if name.startswith("GrafanaRoleDefaultPolicy")
    )
    for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
        actions = statement["Action"]
        services = {action.split(":")[0] for action in ([actions] if isinstance(actions, str) else actions)}
        assert (
            services == {"cloudwatch"} if statement["Resource"] == "*" else services <= {"aps", "sns", "kms"}
        )
    assert configuration(template)["amgWorkspace"] == {
        "workspaceName": "maze-grpo",
        "arn": "arn:aws:grafana:us-east-2:?:/workspaces/?",
    }


ADMINS = "11111111-2222-3333-4444-555555555555"


def test_grafanas_content_gets_every_value_that_it_asks_for(build: Build) -> None:
    template = build(grafana_authentication=GrafanaAuthentication.IDENTITY_CENTER)
    (content,) = of_type(template, "Custom::GrafanaContent")
    asked = set(PLACEHOLDER.findall(json.dumps(grafana_content(load_settings()))))
    assert asked == content["Properties"]["Values"].keys()


def test_alerts_go_to_a_topic_that_managed_grafana_may_use(build: Build) -> None:
    template = build(
        grafana_authentication=GrafanaAuthentication.IDENTITY_CENTER, alert_emails=("rl@example.com",)
    )
    (topic,) = of_type(template, "AWS::SNS::Topic")
    assert topic["Properties"]["TopicName"].startswith("grafana-")
    assert "alias/aws/sns" in json.dumps(topic["Properties"]["KmsMasterKeyId"])
    (subscription,) = of_type(template, "AWS::SNS::Subscription")
    assert subscription["Properties"]["Endpoint"] == "rl@example.com"
    (workspace,) = of_type(template, "AWS::Grafana::Workspace")
    assert workspace["Properties"]["NotificationDestinations"] == ["SNS"]


def test_groups_get_their_roles_with_the_right_to_give_them(build: Build) -> None:
    template = build(
        grafana_authentication=GrafanaAuthentication.IDENTITY_CENTER, grafana_admin_group_ids=(ADMINS,)
    )
    (content,) = of_type(template, "Custom::GrafanaContent")
    assert content["Properties"]["Roles"] == [{"Role": "ADMIN", "Type": "SSO_GROUP", "Id": ADMINS}]
    assert "AWSGrafanaWorkspacePermissionManagementV2" in json.dumps(of_type(template, "AWS::IAM::Role"))


def test_without_groups_the_handler_gets_no_rights_on_identity_center(build: Build) -> None:
    template = build(grafana_authentication=GrafanaAuthentication.SAML)
    assert "PermissionManagement" not in json.dumps(of_type(template, "AWS::IAM::Role"))
