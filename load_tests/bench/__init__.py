"""The policy as Greenwave serves it, beside the same policy on what a user would pick instead."""
