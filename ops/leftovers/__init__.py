"""What a deployment may leave behind: a module per family of resources, each kind found and deleted alike."""
