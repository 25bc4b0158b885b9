"""The read-only checks of `preflight`, a module per subject."""
