"""A small AWS on loopback, on which the CDK CLI bootstraps, deploys, updates and destroys the stacks.

Real here: the CDK CLI, asset publishing, S3, STS, SSM, ECR, IAM and CloudWatch Logs (moto's server), the
property schemas (CloudFormation's registry, as cfn-lint ships it), the Python of every custom resource.
Stood in: CloudFormation's engine (`engine`), resources that moto does not know (`account`), the API server
behind kubectl and helm (`kubernetes`), Lambda's sandbox (`functions`). Nothing here knows quotas, capacity,
real durations or whether an IAM policy suffices.
"""
