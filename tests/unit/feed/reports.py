"""Reports as replicas make them."""

from deployments.feed.messages import Contents, Report, Source

SOURCE = Source("inference", "Inference", "replica-1")


def report(requests: int = 0, source: Source = SOURCE) -> Report:
    return Report(source, 0.0, Contents(requests))
