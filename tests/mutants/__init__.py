"""Single defects put into the hidden states on purpose: each must make a test fail."""
