"""The GRPO job: maze environment, rewards, training, evaluation, report. This package is what the image ships.

It knows nothing of CDK, Kubernetes or the settings: a profile and a shared folder are all it is given.
"""
