#!/bin/bash
# Installs, upgrades or uninstalls one Helm chart from one commit of a git repository, or applies only its CRDs.
# Runs in CodeBuild.
#
# ACTION        install | uninstall | apply_crds
# REPOSITORY    address of the git repository        COMMIT     full hash
# CHART_PATH    folder of the chart in it            VALUES     JSON
# RELEASE       name of the Helm release             NAMESPACE  where it lives
# CLUSTER_NAME  EKS cluster                          TOOLS      s3:// address of a zip with helm and kubectl
set -euo pipefail

work="$(mktemp --directory)"
trap 'rm --recursive --force "${work}"' EXIT

fail() {
    echo "release.sh: $*" >&2
    exit 1
}

get_tools() {
    aws s3 cp --only-show-errors "${TOOLS}" "${work}/tools.zip"
    unzip -q "${work}/tools.zip" -d "${work}/tools"
    export PATH="${work}/tools/helm:${work}/tools/kubectl:${PATH}"
    export KUBECONFIG="${work}/kubeconfig"
    aws eks update-kubeconfig --name "${CLUSTER_NAME}"
}

# Fetches the one commit and nothing else; a branch or tag that moved cannot slip in.
get_chart() {
    [[ "${COMMIT}" =~ ^[0-9a-f]{40}$ ]] || fail "COMMIT is not a full hash: ${COMMIT}"
    git init --quiet "${work}/source"
    git -C "${work}/source" fetch --quiet --depth 1 "${REPOSITORY}" "${COMMIT}"
    git -C "${work}/source" checkout --quiet --detach FETCH_HEAD
    [[ "$(git -C "${work}/source" rev-parse HEAD)" == "${COMMIT}" ]] || fail "fetched another commit"
    [[ -f "${work}/source/${CHART_PATH}/Chart.yaml" ]] || fail "no chart at ${CHART_PATH} in ${COMMIT}"
    helm dependency update "${work}/source/${CHART_PATH}"
}

install() {
    get_chart
    printf '%s' "${VALUES}" >"${work}/values.json"
    helm upgrade "${RELEASE}" "${work}/source/${CHART_PATH}" --install \
        --namespace "${NAMESPACE}" --create-namespace --values "${work}/values.json" --timeout 10m
    helm status "${RELEASE}" --namespace "${NAMESPACE}"
}

uninstall() {
    helm uninstall "${RELEASE}" --namespace "${NAMESPACE}" --ignore-not-found --wait --timeout 10m
}

# Helm installs crds/ once and never upgrades it. Server-side, because a client-side apply would keep each of
# these definitions in an annotation, which is too small for KubeRay's.
apply_crds() {
    get_chart
    kubectl apply --server-side --force-conflicts --filename "${work}/source/${CHART_PATH}/crds"
}

case "${ACTION}" in
    install | uninstall | apply_crds)
        get_tools
        "${ACTION}"
        ;;
    *) fail "unknown ACTION: ${ACTION}" ;;
esac
