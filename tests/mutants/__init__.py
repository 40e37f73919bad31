"""Mutation tests of the engine and of the policies: a test must find each single defect."""
