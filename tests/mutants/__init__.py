"""Mutation tests of the engine: a test must find each single defect."""
