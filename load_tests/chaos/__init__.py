"""What a running system makes of faults: of the hidden states, and of every service."""
