"""Property tests on shared machines: no deadline per example, and the same examples on every run."""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
