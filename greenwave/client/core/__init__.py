"""What a call is, when it is repeated, what its answers mean: all but input and output."""
