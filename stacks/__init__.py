"""The AWS side: settings, constructs (one capability a file) and the stacks that compose them.

Kubernetes manifests live in `k8s/`; nothing here runs on the cluster.
"""
