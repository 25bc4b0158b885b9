"""The GRPO job: maze environment, rewards, training, evaluation, report. The image ships this package.

It knows nothing of CDK, Kubernetes or the settings: a profile and a shared folder are all it is given.
"""
