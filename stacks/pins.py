"""What stands in settings for a version that nobody looked up yet; `python -m ops pin` does."""

OPEN_DIGEST = "0" * 64
"""sha256 of a base image."""
OPEN_COMMIT = "0" * 40
"""git commit of a model or data set on a Hugging Face hub."""
