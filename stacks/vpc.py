"""The VPC: small subnets for the control plane in several zones, a large one for the nodes in one zone."""

from collections.abc import Sequence

from aws_cdk import CfnResource
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.addressing import MAX_ZONES, SMALL_SUBNET_PREFIX, SubnetPlan

CONTROL_PLANE = "ControlPlane"


class ClusterVpc(Construct):
    """Public and control-plane subnets per zone, the nodes' subnet, one NAT gateway in the nodes' zone.

    Nodes and file system share `node_subnet`, because EFA traffic ends at the zone. Zones are given by id:
    names such as us-east-2a mean different places in different accounts. All traffic is recorded in
    `flow_logs`. Destroying the VPC needs everything that has an address in it to be gone.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cidr: str,
        plan: SubnetPlan,
        zone_ids: Sequence[str],
        node_zone_id: str,
        flow_logs: logs.ILogGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        # The NAT gateway goes to the first zone: there the nodes use it without traffic between zones.
        zones = sorted(zone_ids, key=lambda zone: zone != node_zone_id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(cidr),
            availability_zones=zones,
            # A zone added later takes a range of its own instead of moving those of the others.
            reserved_azs=MAX_ZONES - len(zones),
            nat_gateways=1,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Public",
                    subnet_type=ec2.SubnetType.PUBLIC,
                    cidr_mask=SMALL_SUBNET_PREFIX,
                    map_public_ip_on_launch=False,
                ),
                ec2.SubnetConfiguration(
                    name=CONTROL_PLANE,
                    subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS,
                    cidr_mask=SMALL_SUBNET_PREFIX,
                ),
            ],
            flow_logs={
                "All": ec2.FlowLogOptions(
                    destination=ec2.FlowLogDestination.to_cloud_watch_logs(flow_logs),
                    traffic_type=ec2.FlowLogTrafficType.ALL,
                )
            },
        )
        self.control_plane_subnets = ec2.SubnetSelection(subnet_group_name=CONTROL_PLANE)
        self.node_subnet = self._add_node_subnet(cidr=str(plan.nodes), zone_id=node_zone_id)
        private_subnets = [*self.vpc.private_subnets, self.node_subnet]
        # Image layers come from S3: tens of GB a node, which would otherwise pass the NAT gateway.
        self.vpc.add_gateway_endpoint(
            "S3",
            service=ec2.GatewayVpcEndpointAwsService.S3,
            subnets=[ec2.SubnetSelection(subnets=private_subnets)],
        )
        for subnet in (*self.vpc.public_subnets, *private_subnets):
            _place_by_zone_id(subnet, zone_id=subnet.availability_zone)

    def _add_node_subnet(self, *, cidr: str, zone_id: str) -> ec2.PrivateSubnet:
        nat_gateway = self.vpc.public_subnets[0].node.find_child("NATGateway")
        assert isinstance(nat_gateway, ec2.CfnNatGateway)
        subnet = ec2.PrivateSubnet(
            self, "NodeSubnet", vpc_id=self.vpc.vpc_id, cidr_block=cidr, availability_zone=zone_id
        )
        subnet.add_default_nat_route(nat_gateway.ref)
        return subnet


def _place_by_zone_id(subnet: ec2.ISubnet, *, zone_id: str) -> None:
    """The L2 knows zones by name only; CloudFormation takes the id instead."""
    resource = subnet.node.default_child
    assert isinstance(resource, CfnResource)
    resource.add_property_deletion_override("AvailabilityZone")
    resource.add_property_override("AvailabilityZoneId", zone_id)
