"""What the removal setting means to CloudFormation."""

from aws_cdk import RemovalPolicy

from stacks.settings import Removal


def removal_policy(removal: Removal) -> RemovalPolicy:
    return RemovalPolicy.RETAIN if removal is Removal.RETAIN else RemovalPolicy.DESTROY
