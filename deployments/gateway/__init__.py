"""The gateway: logins, decisions for controllers, and the fallback without the policy."""
