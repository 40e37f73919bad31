import numpy as np
import pytest
import torch
from pydantic import ValidationError

from models.density.forecast import DensityForecaster
from tests.unit.forecasters import (
    CARD,
    EDGES,
    density_config,
    density_network,
    scale,
    write_density,
)

RANDOM = np.random.default_rng(0)


def test_numpy_forecast_equals_the_network():
    network, config = density_network(3), density_config()
    tensors = {k: v.numpy() for k, v in network.state_dict().items()}
    densities = RANDOM.uniform(0, 40, (32, 3, 5))
    mean, std = config.column("mean"), config.column("std")
    with torch.inference_mode():
        scaled = network(torch.from_numpy(((densities - mean) / std).astype(np.float32)))
    expected = np.maximum(scaled.numpy() * std + mean, 0)
    np.testing.assert_allclose(
        DensityForecaster(tensors, config, CARD)(densities), expected, atol=1e-4
    )


def test_scales_are_bound_to_edges_by_name(tmp_path):
    scales = {edge: scale(n) for n, edge in enumerate(EDGES)}
    reordered = dict(sorted(scales.items(), reverse=True))
    (tmp_path / "other").mkdir()
    densities = RANDOM.uniform(0, 40, (4, 3, 5))
    np.testing.assert_array_equal(
        DensityForecaster.load(write_density(tmp_path))(densities),
        DensityForecaster.load(write_density(tmp_path / "other", scales=reordered))(densities),
    )


@pytest.mark.parametrize("edges", [("a", "b", "c", "d", "x"), ("a", "b", "c", "d", "d")])
def test_edge_without_its_own_scale_is_refused(edges):
    with pytest.raises(ValidationError, match="differ"):
        density_config(edges=edges)
