"""The FSx for Lustre file system as a volume and a claim: one pair serves one namespace."""

from cdk8s import Chart
from cdk8s_plus_34 import k8s
from constructs import Construct

from k8s import names
from k8s.props import RayWorkload, SharedStorage

_DRIVER = "fsx.csi.aws.com"
_MODE = "ReadWriteMany"
_KEEP_FINISHED_SECONDS = 60


class StorageChart(Chart):
    """Binds the file system to the namespace and makes it writable for Ray. Deleting it keeps every file.

    The class name is empty on both sides, and each names the other: otherwise the default storage class makes
    a new volume, or another claim takes this one.
    """

    def __init__(self, scope: Construct, construct_id: str, *, workload: RayWorkload) -> None:
        super().__init__(scope, construct_id, labels={names.PART_OF_LABEL: workload.deployment})
        volume_name = f"{workload.deployment}-{names.CLAIM}"
        capacity = {"storage": k8s.Quantity.from_string(f"{workload.storage.capacity_gib}Gi")}
        k8s.KubePersistentVolume(
            self,
            "volume",
            metadata=k8s.ObjectMeta(name=volume_name),
            spec=k8s.PersistentVolumeSpec(
                capacity=capacity,
                access_modes=[_MODE],
                persistent_volume_reclaim_policy="Retain",
                storage_class_name="",
                mount_options=["flock"],
                claim_ref=k8s.ObjectReference(namespace=workload.namespace, name=names.CLAIM),
                csi=_csi_source(workload.storage),
            ),
        )
        k8s.KubePersistentVolumeClaim(
            self,
            "claim",
            metadata=k8s.ObjectMeta(name=names.CLAIM, namespace=workload.namespace),
            spec=k8s.PersistentVolumeClaimSpec(
                access_modes=[_MODE],
                storage_class_name="",
                volume_name=volume_name,
                resources=k8s.VolumeResourceRequirements(requests=capacity),
            ),
        )
        self._ownership(workload)

    def _ownership(self, workload: RayWorkload) -> None:
        """A new Lustre file system belongs to root, and no CSI option changes that for a shared volume."""
        owner = f"{names.RAY_USER_ID}:{names.RAY_GROUP_ID}"
        resources = {"cpu": k8s.Quantity.from_string("100m"), "memory": k8s.Quantity.from_string("128Mi")}
        container = k8s.Container(
            name="chown",
            image=workload.image,
            command=["chown", owner, names.SHARED_DIR],
            env=[k8s.EnvVar(name="NVIDIA_VISIBLE_DEVICES", value="void")],
            resources=k8s.ResourceRequirements(requests=resources, limits=resources),
            security_context=k8s.SecurityContext(
                run_as_user=0,
                allow_privilege_escalation=False,
                capabilities=k8s.Capabilities(drop=["ALL"], add=["CHOWN"]),
                seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
            ),
            volume_mounts=[k8s.VolumeMount(name=names.CLAIM, mount_path=names.SHARED_DIR)],
        )
        pod = k8s.PodSpec(
            restart_policy="OnFailure",
            automount_service_account_token=False,
            node_selector={names.INSTANCE_GROUP_LABEL: workload.head.name},
            tolerations=[
                k8s.Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
                for taint in workload.head.taints
            ]
            or None,
            containers=[container],
            volumes=[
                k8s.Volume(
                    name=names.CLAIM,
                    persistent_volume_claim=k8s.PersistentVolumeClaimVolumeSource(claim_name=names.CLAIM),
                )
            ],
        )
        # Gone soon after it is done: a Job's template cannot change, and the next image would be refused.
        k8s.KubeJob(
            self,
            "ownership",
            metadata=k8s.ObjectMeta(name="shared-ownership", namespace=workload.namespace),
            spec=k8s.JobSpec(
                ttl_seconds_after_finished=_KEEP_FINISHED_SECONDS, template=k8s.PodTemplateSpec(spec=pod)
            ),
        )


def _csi_source(storage: SharedStorage) -> k8s.CsiPersistentVolumeSource:
    return k8s.CsiPersistentVolumeSource(
        driver=_DRIVER,
        volume_handle=storage.file_system_id,
        volume_attributes={"dnsname": storage.dns_name, "mountname": storage.mount_name},
    )
