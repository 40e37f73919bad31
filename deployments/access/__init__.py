"""Who may do what: keys that sign, tokens that they sign, and what a token allows."""
