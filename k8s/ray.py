"""The two Ray workloads: a RayJob that brings its own cluster, and a RayCluster that stays for iterating.

Both are always there and exactly one of them holds the nodes: the other is suspended. KubeRay generates an
access token in a Secret named as the RayCluster, suspended or not; the RayJob, whose own cluster gets a
random name, uses the same Secret.
"""

from cdk8s import ApiObject, ApiObjectMetadata, Chart, JsonPatch
from constructs import Construct

from k8s import names
from k8s.props import Active, RayWorkload
from k8s.ray_pods import Json, head_template, submitter_template, worker_template

_API_VERSION = "ray.io/v1"


def training_entrypoint(run_id: str) -> str:
    """One plain command: KubeRay pastes it unquoted into a shell script, where `&&` would end it."""
    return f"python -m training train --run-id {run_id}"


def cluster_spec(workload: RayWorkload) -> Json:
    """A head that offers no CPU and no GPU to tasks, and one worker on every node of the worker group."""
    workers = workload.workers.count
    return {
        "rayVersion": workload.ray_version,
        "headGroupSpec": {
            "serviceType": "ClusterIP",
            "rayStartParams": {"dashboard-host": names.ALL_INTERFACES, "num-cpus": "0", "num-gpus": "0"},
            "template": head_template(workload),
        },
        "workerGroupSpecs": [
            {
                "groupName": names.WORKER_GROUP,
                "replicas": workers,
                "minReplicas": workers,
                "maxReplicas": workers,
                # CPUs, GPUs and memory come from the container's limits.
                "rayStartParams": {},
                "template": worker_template(workload),
            }
        ],
    }


class _RayChart(Chart):
    """One custom resource of KubeRay in the workload's namespace."""

    def __init__(
        self, scope: Construct, construct_id: str, *, workload: RayWorkload, kind: str, name: str, spec: Json
    ) -> None:
        labels = {names.PART_OF_LABEL: workload.deployment}
        super().__init__(scope, construct_id, namespace=workload.namespace, labels=labels)
        # Kueue resumes whatever carries the label as soon as the quota allows: only the active one may.
        queue = {names.QUEUE_LABEL: workload.queue} if workload.queue and not spec["suspend"] else {}
        resource = ApiObject(
            self,
            "resource",
            api_version=_API_VERSION,
            kind=kind,
            metadata=ApiObjectMetadata(name=name, labels=queue),
        )
        resource.add_json_patch(JsonPatch.add("/spec", spec))


class SessionChart(_RayChart):
    """The RayCluster for iterating. Deleting it ends what runs there and takes the access token along."""

    def __init__(self, scope: Construct, construct_id: str, *, workload: RayWorkload) -> None:
        spec = {
            **cluster_spec(workload),
            "suspend": workload.active is not Active.SESSION,
            "authOptions": {"mode": "token"},
        }
        super().__init__(
            scope,
            construct_id,
            workload=workload,
            kind="RayCluster",
            name=names.session_name(workload.deployment),
            spec=spec,
        )


class JobChart(_RayChart):
    """The RayJob of one training run. Deleting it stops the run; what it wrote to the file system stays.

    A failed attempt is followed by another on a fresh cluster. Its entrypoint carries the same run id, so it
    resumes from the newest complete checkpoint.
    """

    def __init__(self, scope: Construct, construct_id: str, *, workload: RayWorkload) -> None:
        run = workload.run
        spec = {
            "entrypoint": training_entrypoint(run.run_id),
            "submissionMode": "K8sJobMode",
            "suspend": workload.active is not Active.JOB,
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": run.keep_seconds,
            "activeDeadlineSeconds": run.deadline_seconds,
            "preRunningDeadlineSeconds": run.start_deadline_seconds,
            "backoffLimit": run.retries,
            "submitterConfig": {"backoffLimit": 2},
            "submitterPodTemplate": submitter_template(workload),
            "rayClusterSpec": {
                **cluster_spec(workload),
                "authOptions": {"mode": "token", "secretName": names.session_name(workload.deployment)},
            },
        }
        super().__init__(scope, construct_id, workload=workload, kind="RayJob", name=run.run_id, spec=spec)
