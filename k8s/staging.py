"""The job that puts models and data sets on the shared file system, and the wait for it."""

import hashlib
import json
from typing import Any

from cdk8s import Chart
from cdk8s_plus_34 import k8s
from constructs import Construct

from k8s import names
from k8s.props import RayWorkload

_RETRIES = 8
"""Kubernetes waits 10, 20, 40 ... seconds between them; each attempt goes on where the last one ended."""
_DEADLINE_SECONDS = 6 * 3600
_KEEP_FINISHED_SECONDS = 7 * 24 * 3600
_WAIT_MINUTES = 100
"""Longest wait of a head for its models; its workers' start has a deadline of its own."""
_SIZE = {"cpu": "2", "memory": "4Gi"}
_NAME_DIGITS = 10


class StagingChart(Chart):
    """One job for all artifacts of a workload; nothing when there are none. Deleting it keeps what is staged.

    A job's pod template cannot change, so the job's name holds a hash of it: another image or source makes
    another job, which finds complete folders complete.
    """

    def __init__(self, scope: Construct, construct_id: str, *, workload: RayWorkload) -> None:
        super().__init__(scope, construct_id, labels={names.PART_OF_LABEL: workload.deployment})
        if not workload.staged:
            return
        k8s.KubeServiceAccount(
            self,
            "service-account",
            metadata=k8s.ObjectMeta(name=names.STAGING, namespace=workload.namespace),
            automount_service_account_token=False,
        )
        k8s.KubeJob(
            self,
            "job",
            metadata=k8s.ObjectMeta(
                name=f"{names.STAGING}-{_fingerprint(workload)}", namespace=workload.namespace
            ),
            spec=k8s.JobSpec(
                backoff_limit=_RETRIES,
                active_deadline_seconds=_DEADLINE_SECONDS,
                ttl_seconds_after_finished=_KEEP_FINISHED_SECONDS,
                template=k8s.PodTemplateSpec(
                    metadata=k8s.ObjectMeta(
                        labels={
                            names.PART_OF_LABEL: workload.deployment,
                            names.COMPONENT_LABEL: names.STAGING,
                        }
                    ),
                    spec=_pod(workload),
                ),
            ),
        )


def wait_container(workload: RayWorkload) -> dict[str, Any]:
    """Init container of a Ray head: the head comes up when everything it trains from is there."""
    return {
        "name": "wait-for-staging",
        "image": workload.image,
        "command": [*_command(workload), "--wait", str(_WAIT_MINUTES)],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": {"requests": dict(_SIZE), "limits": dict(_SIZE)},
        "volumeMounts": [{"name": names.CLAIM, "mountPath": names.SHARED_DIR}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _command(workload: RayWorkload) -> list[str]:
    artifacts = [f"{artifact.source}={artifact.folder}" for artifact in workload.staged]
    return ["python", "-m", "training.staging", "--root", names.SHARED_DIR, *artifacts]


def _fingerprint(workload: RayWorkload) -> str:
    """Of what the template is made from. The image counts by its tag: only a deploy knows its registry."""
    tag = workload.image.rpartition(":")[2]
    parts = (_command(workload), tag, workload.head.name, workload.hub_token_secret_arn)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_NAME_DIGITS]


def _pod(workload: RayWorkload) -> k8s.PodSpec:
    size = {name: k8s.Quantity.from_string(amount) for name, amount in _SIZE.items()}
    container = k8s.Container(
        name=names.STAGING,
        image=workload.image,
        command=_command(workload),
        env=_environment(workload),
        resources=k8s.ResourceRequirements(requests=size, limits=size),
        security_context=k8s.SecurityContext(
            allow_privilege_escalation=False, capabilities=k8s.Capabilities(drop=["ALL"])
        ),
        volume_mounts=[k8s.VolumeMount(name=names.CLAIM, mount_path=names.SHARED_DIR)],
    )
    return k8s.PodSpec(
        restart_policy="Never",  # each attempt keeps its log
        service_account_name=names.STAGING,
        automount_service_account_token=False,
        node_selector={names.INSTANCE_GROUP_LABEL: workload.head.name},
        tolerations=[
            k8s.Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
            for taint in workload.head.taints
        ]
        or None,
        security_context=k8s.PodSecurityContext(
            run_as_non_root=True,
            run_as_user=names.RAY_USER_ID,
            run_as_group=names.RAY_GROUP_ID,
            seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
        ),
        containers=[container],
        volumes=[
            k8s.Volume(
                name=names.CLAIM,
                persistent_volume_claim=k8s.PersistentVolumeClaimVolumeSource(claim_name=names.CLAIM),
            )
        ],
    )


def _environment(workload: RayWorkload) -> list[k8s.EnvVar]:
    token = k8s.SecretKeySelector(name=names.HUGGING_FACE_SECRET, key="token", optional=True)
    variables = [
        k8s.EnvVar(name="NVIDIA_VISIBLE_DEVICES", value="void"),
        k8s.EnvVar(name="HF_TOKEN", value_from=k8s.EnvVarSource(secret_key_ref=token)),
    ]
    if workload.hub_token_secret_arn:
        variables.append(k8s.EnvVar(name="HF_TOKEN_SECRET_ARN", value=workload.hub_token_secret_arn))
    return variables
