"""Access: signing keys, tokens, scopes, revocations and the audit log."""
