"""CloudFormation's functions evaluate as documented."""

from typing import Any

import pytest

from tests.emulated.intrinsics import Resolver, TemplateError, referenced_names


@pytest.fixture
def resolver() -> Resolver:
    resources = {"Bucket": {"": "logs", "Arn": "arn:aws:s3:::logs"}}
    return Resolver(
        template={
            "Conditions": {"Big": {"Fn::Equals": [{"Ref": "Size"}, "big"]}},
            "Mappings": {"Ports": {"ssh": {"number": 22}}},
        },
        values={"AWS::Region": "us-east-2", "Size": "big", "Zones": ["a", "b"]},
        reference=lambda logical_id: resources[logical_id][""],
        attribute=lambda logical_id, name: resources[logical_id][name],
        imported={"shared-vpc": "vpc-1"}.__getitem__,
        stack_output=lambda stack, output: f"{stack}/{output}",
        ssm_parameter={"/image": "ami-1"}.__getitem__,
        zones=("us-east-2a", "us-east-2b"),
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Ref": "AWS::Region"}, "us-east-2"),
        ({"Ref": "Bucket"}, "logs"),
        ({"Fn::GetAtt": ["Bucket", "Arn"]}, "arn:aws:s3:::logs"),
        ({"Fn::GetAtt": "Bucket.Arn"}, "arn:aws:s3:::logs"),
        ({"Fn::Sub": "${Bucket.Arn}/${AWS::Region}/${!literal}"}, "arn:aws:s3:::logs/us-east-2/${literal}"),
        ({"Fn::Sub": ["${x}-${Size}", {"x": {"Ref": "Bucket"}}]}, "logs-big"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Size"}, 3]]}, "a-big-3"),
        ({"Fn::Select": [1, {"Fn::Split": ["/", "a/b/c"]}]}, "b"),
        ({"Fn::Select": ["0", {"Fn::GetAZs": ""}]}, "us-east-2a"),
        ({"Fn::If": ["Big", "yes", "no"]}, "yes"),
        ({"Fn::Or": [{"Fn::Not": [{"Condition": "Big"}]}, {"Condition": "Big"}]}, True),
        ({"Fn::And": [{"Condition": "Big"}, {"Fn::Not": [{"Condition": "Big"}]}]}, False),
        ({"Fn::FindInMap": ["Ports", "ssh", "number"]}, 22),
        ({"Fn::Base64": "hi"}, "aGk="),
        ({"Fn::Cidr": ["10.0.0.0/16", 2, 8]}, ["10.0.0.0/24", "10.0.1.0/24"]),
        ({"Fn::ImportValue": "shared-vpc"}, "vpc-1"),
        ({"Fn::GetStackOutput": {"StackName": "Network", "OutputName": "Vpc"}}, "Network/Vpc"),
        ("{{resolve:ssm:/image}}", "ami-1"),
        ({"a": {"Ref": "AWS::NoValue"}, "b": [1, {"Ref": "AWS::NoValue"}]}, {"b": [1]}),
        ({"Condition": {"StringEquals": {"a": "b"}}}, {"Condition": {"StringEquals": {"a": "b"}}}),
    ],
)
def test_function_evaluates(resolver: Resolver, value: Any, expected: Any) -> None:
    assert resolver.resolve(value) == expected


def test_unknown_function_is_refused(resolver: Resolver) -> None:
    with pytest.raises(TemplateError, match="Fn::ToJsonString"):
        resolver.resolve({"Fn::ToJsonString": {}})


def test_every_way_to_name_a_resource_counts_as_a_reference() -> None:
    value = {
        "a": [{"Ref": "One"}, {"Fn::GetAtt": ["Two", "Arn"]}, {"Fn::GetAtt": "Three.Arn"}],
        "b": {"Fn::Sub": ["${Four.Arn} ${local} ${!Literal}", {"local": {"Ref": "Five"}}]},
        "c": {"Fn::Sub": "${Six}"},
        "d": {"Fn::Join": ["", ["x", {"Ref": "Seven"}]]},
    }
    assert set(referenced_names(value)) == {"One", "Two", "Three", "Four", "Five", "Six", "Seven"}
