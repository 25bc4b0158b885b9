"""The division of the VPC."""

import re
from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks.addressing import MAX_ZONES, needed_addresses, plan_subnets

VPCS = st.builds(
    lambda prefix, index: list(IPv4Network("10.0.0.0/12").subnets(new_prefix=prefix))[index],
    st.integers(16, 22),
    st.integers(0, 15),
)


@given(vpc=VPCS, addresses=st.integers(1, 512))
def test_subnets_lie_in_the_vpc_apart_from_each_other(vpc: IPv4Network, addresses: int) -> None:
    plan = plan_subnets(vpc=vpc, addresses=addresses)
    subnets = (*plan.public, *plan.control_plane, plan.nodes)
    assert len(plan.public) == len(plan.control_plane) == MAX_ZONES
    assert all(subnet.subnet_of(vpc) for subnet in subnets)
    assert not any(one.overlaps(other) for one, other in combinations(subnets, 2))
    assert plan.nodes.num_addresses >= addresses


def test_more_nodes_do_not_move_the_subnets() -> None:
    vpc = IPv4Network("10.0.0.0/16")
    assert plan_subnets(vpc=vpc, addresses=300) == plan_subnets(vpc=vpc, addresses=3000)


def test_the_walkthrough_needs_what_a_hand_calculation_gives() -> None:
    # 3 nodes of 64 addresses and one of 50, four times; 32 for the file system, 5 for AWS
    assert needed_addresses(pod_addresses=3 * 64 + 50, growth_factor=4) == 1005


@pytest.mark.parametrize(
    ("vpc", "addresses", "message"),
    [
        ("10.0.0.0/23", 10, "8 subnets of /26 do not fit into 10.0.0.0/24"),
        ("10.0.0.0/20", 2049, "need 2049 addresses, its upper half 10.0.8.0/21 holds 2048"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(vpc: str, addresses: int, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plan_subnets(vpc=IPv4Network(vpc), addresses=addresses)
