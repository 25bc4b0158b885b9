"""The situations that `diagnose` knows: how each shows itself, what causes it, what mends it.

A situation looks at one source (node labels, what pods and events say, RayJob reasons, logs, HyperPod's
events) and yields a line of evidence per sighting. Texts are matched in the words of Kubernetes, KubeRay,
HyperPod, NCCL and PyTorch.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from k8s import names
from ops.diagnosis import sightings
from ops.diagnosis.evidence import Evidence

type Look = Callable[[Evidence], Iterator[str]]

HEALTH = "sagemaker.amazonaws.com/node-health-status"
DEEP_CHECK = "sagemaker.amazonaws.com/deep-health-check-status"
RECORD = "Run `python -m ops diagnose --save evidence.json` and attach the file to a support case."


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One thing that goes wrong."""

    name: str
    look: Look
    cause: str
    remedy: str


def _pod(pattern: str) -> Look:
    return lambda evidence: sightings.in_pods(evidence, re.compile(pattern, re.IGNORECASE))


def _event(pattern: str) -> Look:
    return lambda evidence: sightings.in_events(evidence, re.compile(pattern, re.IGNORECASE))


def _log(pattern: str) -> Look:
    return lambda evidence: sightings.in_logs(evidence, re.compile(pattern, re.IGNORECASE))


def _hyperpod(pattern: str) -> Look:
    return lambda evidence: sightings.in_hyperpod(evidence, re.compile(pattern, re.IGNORECASE))


def _label(key: str, pattern: str) -> Look:
    return lambda evidence: sightings.in_labels(evidence, key=key, pattern=re.compile(pattern))


def _reason(*reasons: str) -> Look:
    return lambda evidence: sightings.in_ray_jobs(evidence, reasons=frozenset(reasons))


def _missing_resource(resource: str, of_type: str) -> Look:
    return lambda evidence: sightings.missing_resource(
        evidence, resource=resource, pattern=re.compile(of_type)
    )


CAPACITY = (
    Situation(
        name="no-capacity",
        look=_hyperpod(r"insufficient.*capacity|not have (enough|sufficient).*capacity"),
        cause="AWS has no free instances of this type in the zone",
        remedy="Wait: HyperPod goes on asking. Or take a zone that preflight names, or a training plan.",
    ),
    Situation(
        name="quota-exceeded",
        look=_hyperpod(r"ResourceLimitExceeded|exceeds?.*(quota|limit)"),
        cause="the account's quota for this instance type is too small",
        remedy='Raise "<type> for cluster usage" in Service Quotas; `python -m ops preflight` tells.',
    ),
    Situation(
        name="lifecycle-script-failed",
        look=_hyperpod(r"lifecycle (script|config).*(fail|not run successfully)"),
        cause="the script that HyperPod runs on a new node failed",
        remedy="Read the stream LifecycleConfig/<group>/<instance> in /aws/sagemaker/Clusters/<name>/<id>.",
    ),
    Situation(
        name="efa-check-failed",
        look=_hyperpod(r"EFA health checks? did not run successfully"),
        cause="nodes cannot reach each other by EFA: the security group lacks a rule to itself, in or out",
        remedy="Allow all traffic from and to the group itself; if that is so, let HyperPod retry.",
    ),
    Situation(
        name="nodes-missing",
        look=sightings.missing_instances,
        cause="HyperPod has not yet delivered all instances of a group",
        remedy="Look at the other findings; without any, wait: a node takes 15 to 30 minutes.",
    ),
)

NODES = (
    Situation(
        name="node-being-replaced",
        look=_label(HEALTH, r"^UnschedulablePendingReplacement$"),
        cause="HyperPod found a hardware fault and replaces the node",
        remedy="Wait 20 to 30 minutes; the job resumes from its newest checkpoint on the new node.",
    ),
    Situation(
        name="node-being-rebooted",
        look=_label(HEALTH, r"^UnschedulablePendingReboot$"),
        cause="HyperPod reboots the node after a fault that a reboot mends",
        remedy="Wait some minutes; if it comes back so, label it UnschedulablePendingReplacement.",
    ),
    Situation(
        name="node-unhealthy",
        look=_label(HEALTH, r"^Unschedulable$"),
        cause="HyperPod keeps work off the node: it failed a health check or is still being checked",
        remedy=f"Wait while it is checked; else set {HEALTH}=UnschedulablePendingReplacement on it.",
    ),
    Situation(
        name="deep-check-running",
        look=_label(DEEP_CHECK, r"^InProgress$"),
        cause="the node is stress-tested before it takes work",
        remedy="Wait: tens of minutes, sometimes hours. deep_health_checks in cdk.json switches this off.",
    ),
    Situation(
        name="deep-check-failed",
        look=_label(DEEP_CHECK, r"^Failed$"),
        cause="the stress test found a bad GPU, link or EFA interface",
        remedy=f"Let HyperPod replace the node: set {HEALTH}=UnschedulablePendingReplacement on it. {RECORD}",
    ),
    Situation(
        name="node-not-ready",
        look=sightings.not_ready_nodes,
        cause="the node's kubelet does not report",
        remedy="Give it 5 minutes, then reboot it: aws sagemaker batch-reboot-cluster-nodes.",
    ),
    Situation(
        name="gpus-not-advertised",
        look=_missing_resource(names.GPU, r"^ml\.(g|p)\d"),
        cause="no NVIDIA device plugin runs on the node, so Kubernetes sees no GPU there",
        remedy="Install HyperPod's chart at or after commit 62f58db: older ones do not know g7e.",
    ),
    Situation(
        name="efa-not-advertised",
        look=_missing_resource(names.EFA, r"^ml\.(g7e|g6e?)\.(8|12|24|48)xlarge$|^ml\.p"),
        cause="no EFA device plugin runs on the node, so pods that ask for EFA stay Pending",
        remedy="Check the DaemonSet aws-efa-k8s-device-plugin in kube-system and its list of instance types.",
    ),
)

SCHEDULING = (
    Situation(
        name="does-not-fit",
        look=_pod(r"Insufficient (cpu|memory|ephemeral-storage|nvidia\.com/gpu|vpc\.amazonaws\.com/efa)"),
        cause="the pod asks for more than any node has free",
        remedy="Compare its requests with `kubectl describe node`: allocatable counts, not the type's size.",
    ),
    Situation(
        name="selector-matches-no-node",
        look=_pod(r"didn't match Pod's node affinity/selector"),
        cause="no node carries the labels of the pod's selector",
        remedy="Node labels carry instance types with `ml.`; check ray.*_group and the groups' counts.",
    ),
    Situation(
        name="taint-not-tolerated",
        look=_pod(r"had untolerated taint"),
        cause="nodes carry a taint that the pod does not tolerate",
        remedy="Declare it in instance_groups[].taints; a health taint of HyperPod's goes by itself.",
    ),
    Situation(
        name="claim-unbound",
        look=_pod(r"unbound immediate PersistentVolumeClaims"),
        cause="the claim on the shared file system has no volume",
        remedy='The volume must name this claim, with the same size and storageClassName "" on both.',
    ),
    Situation(
        name="queue-does-not-admit",
        look=sightings.not_admitted,
        cause="task governance has not admitted the workload: no quota is free for the team",
        remedy="Look at `kubectl get workloads`; free quota, or leave ray.queue out of cdk.json.",
    ),
    Situation(
        name="pod-security-refused",
        look=_event(r"violates PodSecurity"),
        cause="the namespace's Pod Security level refuses the pod",
        remedy="Run `python -m k8s validate` on the manifest and set the security context that it names.",
    ),
)

PODS = (
    Situation(
        name="image-not-found",
        look=_pod(r"(manifest unknown|manifest for \S+ not found|not found: (name|manifest))"),
        cause="the image's tag is not in the registry",
        remedy="Build it: the registry stack's CodeBuild project; then delete the pod.",
    ),
    Situation(
        name="image-pull-denied",
        look=_pod(r"pull.*(403 Forbidden|not authorized|no basic auth credentials|access denied)"),
        cause="the node may not read the registry: pulls use HyperPod's execution role",
        remedy="Allow ECR's read actions to that role, and in another account's repository too.",
    ),
    Situation(
        name="driver-not-loaded",
        look=_pod(r"failed to initialize NVML"),
        cause="the image asks for all GPUs on a node without any",
        remedy="Set NVIDIA_VISIBLE_DEVICES=void in the pods of the head and the submitter.",
    ),
    Situation(
        name="secret-missing",
        look=_pod(r'secret "[^"]+" not found'),
        cause="the pod refers to a Secret that does not exist",
        remedy="Create it (`kubectl create secret generic`), or mark the reference optional.",
    ),
    Situation(
        name="out-of-memory",
        look=_pod(r"\bOOMKilled\b"),
        cause="the container used more memory than its limit; /dev/shm counts too",
        remedy="Lower object store or micro batch, or raise the limit; the head gathers LoRA shards.",
    ),
    Situation(
        name="evicted",
        look=_pod(r"\bEvicted\b"),
        cause="the node ran out of disk or memory, most often by /tmp/ray",
        remedy="Raise ebs_volume_gib of the group, or write less below /tmp/ray.",
    ),
    Situation(
        name="file-system-driver-missing",
        look=_event(r"driver name fsx\.csi\.aws\.com not found"),
        cause="the FSx driver does not run on the node",
        remedy="Check the add-on aws-fsx-csi-driver and its DaemonSet fsx-csi-node in kube-system.",
    ),
    Situation(
        name="file-system-mount-failed",
        look=_event(r"mount\.lustre|MountVolume\.\w+ failed.*timed out"),
        cause="the node cannot mount the file system: closed ports, or another mount name",
        remedy="Open tcp 988 and 1018-1023 to the file system; compare the volume's dnsname and mountname.",
    ),
    Situation(
        name="head-unreachable",
        look=sightings.waiting_for_head,
        cause="workers wait for a head that is not there or not reachable",
        remedy="Look at the head pod first; when it is Ready, a NetworkPolicy closes port 6379 between them.",
    ),
)

JOBS = (
    Situation(
        name="operator-absent",
        look=sightings.operator_absent,
        cause="no KubeRay operator runs, so nothing acts on RayJobs and RayClusters",
        remedy="Check the deployment kuberay-operator in kuberay-system; deploy the ray stack again.",
    ),
    Situation(
        name="deletion-stuck",
        look=sightings.stuck_deletions,
        cause="a Ray object waits for the operator to remove its finalizer",
        remedy="Bring the operator back. Only if it is gone for good, remove metadata.finalizers by hand.",
    ),
    Situation(
        name="deadline-exceeded",
        look=_reason("DeadlineExceeded"),
        cause="the job took longer than its deadline, image pull and queueing included",
        remedy="Raise job.deadline_hours and submit with the same run id: it resumes.",
    ),
    Situation(
        name="manifest-refused",
        look=_reason("ValidationFailed"),
        cause="the operator refuses the RayJob's manifest",
        remedy="Run `python -m k8s validate` on it: it applies the operator's rules and names the field.",
    ),
    Situation(
        name="submission-failed",
        look=_reason("SubmissionFailed"),
        cause="the submitter could not hand the job to the head",
        remedy="Read the submitter's log; check the token's Secret and the NetworkPolicy for port 8265.",
    ),
    Situation(
        name="job-status-lost",
        look=_reason("JobStatusCheckTimeoutExceeded"),
        cause="the operator could not ask the head for the job's state: the head is gone or overloaded",
        remedy="Look at the head pod; submit with the same run id to resume.",
    ),
    Situation(
        name="job-failed",
        look=_reason("AppFailed"),
        cause="the training process ended with an error",
        remedy="Read the end of `python -m ops logs`; the other findings may name it.",
    ),
)

TRAINING = (
    Situation(
        name="gpu-out-of-memory",
        look=_log(r"CUDA out of memory|OutOfMemoryError: CUDA"),
        cause="model, activations and KV cache exceed one GPU's memory",
        remedy="Lower gpu_memory_utilization or the micro batch in the profile.",
    ),
    Situation(
        name="collective-timeout",
        look=_log(r"Watchdog caught collective operation timeout|NCCL.*timed out"),
        cause="one rank stopped taking part: it crashed, hangs, or its node lost the network",
        remedy="Find the first error among the workers' logs; a bad node shows in its health label.",
    ),
    Situation(
        name="head-in-collective",
        look=_log(r"fi_av_insert"),
        cause="a rank without EFA, such as the head, is part of the NCCL group",
        remedy="Train on workers only: the number of nodes must not count the head.",
    ),
    Situation(
        name="tcp-instead-of-efa",
        look=_log(r"NCCL INFO Using network Socket"),
        cause="NCCL found no EFA and uses TCP, several times slower",
        remedy="Request vpc.amazonaws.com/efa and use an image with libfabric and aws-ofi-nccl for its CUDA.",
    ),
    Situation(
        name="cuda-too-old",
        look=_log(r"requires CUDA >= 1[23]"),
        cause="the image's CUDA toolkit is older than this GPU needs (sm_120)",
        remedy="Use the CUDA 13 base image and set CUDA_HOME, or VLLM_USE_FLASHINFER_SAMPLER=0.",
    ),
    Situation(
        name="version-skew",
        look=_log(r"Version mismatch: The cluster was started with"),
        cause="head, workers and client run different Ray or Python versions",
        remedy="Use one image for all of them, and the same patch version in a client.",
    ),
    Situation(
        name="model-access-refused",
        look=_log(r"(401|403) Client Error.*huggingface\.co|GatedRepoError"),
        cause="Hugging Face refuses the download: no token, or no access to a gated model",
        remedy="Create the Secret hugging-face with the key token; ask for access on the model's page.",
    ),
    Situation(
        name="disk-full",
        look=_log(r"No space left on device|Disk quota exceeded"),
        cause="the shared file system or /tmp/ray is full",
        remedy="Delete old runs below /shared/runs, or raise storage.capacity_gib.",
    ),
)

CATALOGUE = (*CAPACITY, *NODES, *SCHEDULING, *PODS, *JOBS, *TRAINING)
