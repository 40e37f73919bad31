import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    # at these sizes threads cost more than they bring, and on a busy machine ten times as much
    torch.set_num_threads(1)
