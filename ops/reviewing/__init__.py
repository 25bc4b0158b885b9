"""What a review compares: cloud assemblies, manifests, settings. The command is `ops.review`."""
