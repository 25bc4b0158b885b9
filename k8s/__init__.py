"""What runs on the Kubernetes cluster: cdk8s charts as pure functions of typed props, and their validation.

Knows nothing of AWS stacks or of `cdk.json`; values may be deploy-time tokens. `python -m k8s` renders alone.
"""
