"""What Prometheus itself says of the expressions: needs `promtool` (Debian: package prometheus) on PATH."""
