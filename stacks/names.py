"""Names that more than one part must agree on. Everything else is named by CloudFormation."""

from stacks.settings import Settings

DEPLOYMENT_TAG = "hyperpod-rl:deployment"
"""Tag of every resource; its value is the deployment's name. Operations find what is left by it."""


def cluster_name(settings: Settings) -> str:
    """Name of the EKS cluster and of the HyperPod cluster: log groups are named after both."""
    return settings.name


def control_plane_log_group(settings: Settings) -> str:
    """EKS writes here and nowhere else; created before the cluster, so that it is ours to delete."""
    return f"/aws/eks/{cluster_name(settings)}/cluster"


def hyperpod_log_group_prefix(settings: Settings) -> str:
    """HyperPod creates one log group under this prefix, named after the cluster's generated id."""
    return f"/aws/sagemaker/Clusters/{cluster_name(settings)}/"
