"""The authority's side: who owns which state, and what was committed last."""
