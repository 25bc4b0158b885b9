#!/bin/bash
# Runs as root on every HyperPod node when it is created or replaced, before it joins the cluster.
#
# Moves the data of containerd and kubelet to the large volume, because a training image is tens of GB and the
# root volume is not, and brings the Lustre network up. Downloads nothing. Each step can run twice.
# ROOT and SYSTEMCTL exist for the test, which runs the script in a scratch directory.
set -euo pipefail

ROOT="${ROOT:-}"
LARGE_VOLUME="${ROOT}/opt/sagemaker"
LOG="${ROOT}/var/log/provision/provisioning.log"

log() {
    echo "$(date --utc +%FT%TZ) $*" | tee --append "${LOG}"
}

# Replaces a data directory by a link to the large volume and keeps what it holds.
relocate() {
    local source="${ROOT}$1" target="${LARGE_VOLUME}$1"
    if [[ -L "${source}" ]]; then
        log "$1 lies on the large volume already"
        return
    fi
    mkdir --parents "${target}" "$(dirname "${source}")"
    if [[ -d "${source}" ]]; then
        cp --archive "${source}/." "${target}/"
        rm --recursive --force "${source}"
    fi
    ln --symbolic "${target}" "${source}"
    log "$1 moved to the large volume"
}

start_lustre_network() {
    if ! modprobe --all lnet lustre; then
        log "the image has no Lustre client; pods will not mount /shared"
        return 1
    fi
    lctl network up
    log "Lustre network is up"
}

main() {
    mkdir --parents "$(dirname "${LOG}")"
    log "lifecycle script starts"
    if [[ ! -d "${LARGE_VOLUME}" ]]; then
        log "${LARGE_VOLUME} is missing: the node has no data volume"
        return 1
    fi
    systemctl stop kubelet containerd
    relocate /var/lib/containerd
    relocate /var/lib/kubelet
    systemctl start containerd
    start_lustre_network
    log "lifecycle script ends"
}

main "$@"
