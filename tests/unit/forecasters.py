"""Small untrained models on disk, as the services read them."""

from pathlib import Path

import torch

from deployments.density.service import DensityService
from deployments.flow.service import FlowService
from lab.train.forecasts.networks import DensityNetwork, FlowNetwork
from models.artifacts import Card, ColumnScale, write_artifact
from models.density.forecast import DensityConfig
from models.flow.forecast import Calibration, FlowConfig
from models.flow.window import FEATURES
from models.networks.shipped import JUNCTIONS

torch.set_num_threads(1)  # at these sizes threads cost more than they bring

EDGES = ("a", "b", "c", "d", "e")
CARD = Card(
    version="test",
    created="2026-01-01",
    git_revision="none",
    data={},
    test_loss=0.25,
    test_mae=1.5,
    metrics={"within_tolerance": 0.9},
)


def scale(n: int) -> ColumnScale:
    return ColumnScale(mean=10.0 + n, std=2.0 + n, low=0.0, high=40.0 + n)


def density_network(seed: int) -> DensityNetwork:
    torch.manual_seed(seed)
    network = DensityNetwork(8).eval()
    torch.nn.init.normal_(network.head.weight)
    return network


def density_config(**changes: object) -> DensityConfig:
    scales = {edge: scale(n) for n, edge in enumerate(EDGES)}
    return DensityConfig.model_validate(
        {"hidden_dim": 8, "edges": EDGES, "scales": scales} | changes
    )


def write_density(folder: Path, seed: int = 0, **changes: object) -> Path:
    path = folder / f"density-{seed}.safetensors"
    tensors = {k: v.numpy() for k, v in density_network(seed).state_dict().items()}
    write_artifact(path, tensors, density_config(**changes), CARD)
    return path


def flow_network(seed: int) -> FlowNetwork:
    torch.manual_seed(seed)
    network = FlowNetwork(8, len(JUNCTIONS)).eval()
    torch.nn.init.normal_(network.head.weight, std=0.3)
    return network


def flow_config() -> FlowConfig:
    calibration = Calibration(
        vehicles=1.0, share=0.1, slope=1.2, observed=(1, 15, 60), offsets=(-2.0, -0.5, 0.5)
    )
    scales = {
        junction: {feature: scale(n + row) for n, feature in enumerate(FEATURES)}
        for row, junction in enumerate(JUNCTIONS)
    }
    return FlowConfig(
        hidden_dim=8, junctions=tuple(JUNCTIONS), scales=scales, calibration=calibration
    )


def write_flow(folder: Path, seed: int = 0) -> Path:
    path = folder / f"flow-{seed}.safetensors"
    tensors = {k: v.numpy() for k, v in flow_network(seed).state_dict().items()}
    write_artifact(path, tensors, flow_config(), CARD)
    return path


async def density_service(folder: Path) -> DensityService:
    service = DensityService()
    await service.slot.load(write_density(folder))
    return service


async def flow_service(folder: Path) -> FlowService:
    service = FlowService()
    await service.slot.load(write_flow(folder))
    return service
