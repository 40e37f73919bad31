"""Between a decision and the street: plans for the time without a policy, and safety."""
