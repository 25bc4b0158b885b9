"""Names, versions and ports that the charts share with the stacks and the commands for people."""

KUBERNETES_VERSION = "1.34"
KUBERAY_VERSION = "1.7.0"
"""Of the operator's chart and of the CRD schemas that manifests are checked against: they must agree."""
KUBERAY_COMMIT = "59d663aeec13760646da3db9c1cf8cfe883e30b7"
"""The commit of that version's tag: a tag can move."""

OPERATOR_NAMESPACE = "kuberay-system"
OBSERVABILITY_NAMESPACE = "hyperpod-observability"
RAY_ENDPOINT_NAMESPACE = "hyperpod-ray"

SHARED_DIR = "/shared"
SHARED_MEMORY_DIR = "/dev/shm"  # noqa: S108 (inside a pod)
RAY_TEMP_DIR = "/tmp/ray"  # noqa: S108 (inside a pod)
ALL_INTERFACES = "0.0.0.0"  # noqa: S104 (of a pod, behind the network policies)
SERVICE_ACCOUNT = "ray"
"""Of every Ray pod; pod identities are bound to it."""
STAGING = "staging"
"""Component, chart and service account of the job that stages models; its pod identity may read sources."""
CLAIM = "shared"
"""The claim on the shared file system."""
HUGGING_FACE_SECRET = "hugging-face"  # noqa: S105 (a name)
"""Optional secret with the key `token`; pods start without it."""

RAY_USER_ID = 1000
RAY_GROUP_ID = 100
"""The user and group `ray:users` that Ray's published images run as."""

HEAD_GROUP = "head"
WORKER_GROUP = "workers"

GCS_PORT = 6379
DASHBOARD_PORT = 8265
CLIENT_PORT = 10001
METRICS_PORT = 8080

GPU = "nvidia.com/gpu"
EFA = "vpc.amazonaws.com/efa"

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
INSTANCE_GROUP_LABEL = "sagemaker.amazonaws.com/instance-group-name"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
RAY_NODE_LABEL = "ray.io/is-ray-node"
COMPONENT_LABEL = "app.kubernetes.io/component"
PART_OF_LABEL = "app.kubernetes.io/part-of"


def session_name(deployment: str) -> str:
    """The RayCluster that stays, and the Secret in which KubeRay keeps the access token of our clusters."""
    return f"{deployment}-session"
