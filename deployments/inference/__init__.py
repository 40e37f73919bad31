"""The inference service: the policy, and the hidden states that its replicas own and step."""
