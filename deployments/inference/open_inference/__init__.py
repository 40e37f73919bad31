"""The Open Inference Protocol, version 2: how Triton and KServe clients call the policy."""
