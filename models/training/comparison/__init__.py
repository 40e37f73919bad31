"""Controllers, and a policy, compared on a user's city: every run kept, and one page that tells."""
