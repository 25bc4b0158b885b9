"""Versions of the EKS add-ons, one table per Kubernetes version.

Collected from public repositories that deploy them on clusters of that version. EKS retires old builds:
when a deploy refuses one, ask `aws eks describe-addon-versions --kubernetes-version <v>`.
HyperPod accepts Kubernetes 1.30 to 1.35; a version is offered here once all of its add-ons are known.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonVersions:
    """One version of each add-on."""

    vpc_cni: str
    """HyperPod supports no other CNI, from 1.18.3 on."""
    kube_proxy: str
    coredns: str
    pod_identity_agent: str
    cert_manager: str
    metrics_server: str
    fsx_csi_driver: str


ADDON_VERSIONS = {
    "1.33": AddonVersions(
        vpc_cni="v1.21.1-eksbuild.1",
        kube_proxy="v1.33.5-eksbuild.2",
        coredns="v1.12.4-eksbuild.1",
        pod_identity_agent="v1.3.10-eksbuild.2",
        cert_manager="v1.19.1-eksbuild.1",
        metrics_server="v0.8.0-eksbuild.6",
        fsx_csi_driver="v1.8.0-eksbuild.1",
    ),
    "1.34": AddonVersions(
        vpc_cni="v1.21.1-eksbuild.1",
        kube_proxy="v1.34.1-eksbuild.2",
        coredns="v1.12.4-eksbuild.1",
        pod_identity_agent="v1.3.10-eksbuild.2",
        cert_manager="v1.19.1-eksbuild.1",
        metrics_server="v0.8.0-eksbuild.6",
        fsx_csi_driver="v1.8.0-eksbuild.1",
    ),
}
