"""Where traffic goes."""

from typing import Any

import pytest

from stacks.settings import load_settings
from tests.infra.conftest import Template, resources_of, the_resource


@pytest.fixture
def network(templates: dict[str, Template]) -> Template:
    return templates["network"]


def only(found: dict[str, Any], name: str) -> tuple[str, Any]:
    """Logical id and properties of the one resource whose id contains the name."""
    ((logical_id, resource),) = [(key, value) for key, value in found.items() if name in key]
    return logical_id, resource["Properties"]


def test_nodes_reach_s3_without_the_nat_gateway(network: Template) -> None:
    route_table, _ = only(resources_of(network, "AWS::EC2::RouteTable"), "NodeSubnet")
    endpoint = the_resource(network, "AWS::EC2::VPCEndpoint")
    assert "s3" in str(endpoint["ServiceName"])
    assert {"Ref": route_table} in endpoint["RouteTableIds"]


def test_the_nat_gateway_is_in_the_nodes_zone(network: Template, environment: str) -> None:
    """Traffic between zones costs by the gigabyte."""
    nat_gateway = the_resource(network, "AWS::EC2::NatGateway")
    subnet = network["Resources"][nat_gateway["SubnetId"]["Ref"]]["Properties"]
    assert subnet["AvailabilityZoneId"] == load_settings(environment).network.hyperpod_zone_id


def test_nodes_leave_by_the_nat_gateway(network: Template) -> None:
    _, route = only(resources_of(network, "AWS::EC2::Route"), "NodeSubnet")
    assert route["DestinationCidrBlock"] == "0.0.0.0/0"
    assert "NatGatewayId" in route


def test_no_subnet_hands_out_public_addresses(network: Template) -> None:
    for name, subnet in resources_of(network, "AWS::EC2::Subnet").items():
        assert not subnet["Properties"].get("MapPublicIpOnLaunch"), name


def test_subnets_are_placed_by_zone_id_alone(network: Template, environment: str) -> None:
    zones = set(load_settings(environment).network.control_plane_zone_ids)
    for name, subnet in resources_of(network, "AWS::EC2::Subnet").items():
        assert "AvailabilityZone" not in subnet["Properties"], name
        assert subnet["Properties"]["AvailabilityZoneId"] in zones, name


def test_subnets_have_the_planned_ranges(network: Template, environment: str) -> None:
    """The plan keeps ranges for zones that come later, so a zone more must not move the others."""
    settings = load_settings(environment)
    zones = len(settings.network.control_plane_zone_ids)
    plan = settings.subnet_plan
    planned = (*plan.public[:zones], *plan.control_plane[:zones], plan.nodes)
    subnets = resources_of(network, "AWS::EC2::Subnet").values()
    assert {subnet["Properties"]["CidrBlock"] for subnet in subnets} == {str(each) for each in planned}


def test_all_traffic_is_recorded(network: Template) -> None:
    flow_log = the_resource(network, "AWS::EC2::FlowLog")
    assert flow_log["TrafficType"] == "ALL"
    assert flow_log["LogGroupName"]
