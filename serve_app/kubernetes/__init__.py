"""What KubeRay runs in place of ``greenwave up``: manifests made from a serve config."""
