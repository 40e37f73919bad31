import json

import numpy as np
import pytest

from deployments.forecast.api import create_app
from models.density.forecast import DensityForecaster
from tests.unit.forecasters import CARD, EDGES, density_service
from tests.unit.http.apps import client_of

DATA: list[list[float]] = [[10.0, 11, 12, 13, 14], [20, 21, 22, 23, 24], [30, 31, 32, 33, 34.5]]


@pytest.fixture
async def service(tmp_path):
    return await density_service(tmp_path)


@pytest.fixture
def client(service):
    return client_of(create_app(service))


class TestPredict:
    async def test_valid(self, client, tmp_path):
        answer = await client.post("/predict", json={"data": DATA})
        assert answer.status_code == 200
        assert list(answer.json()) == ["prediction", "edge_ids"]
        assert answer.json()["edge_ids"] == list(EDGES)
        expected = DensityForecaster.load(tmp_path / "density-0.safetensors")(np.array([DATA]))
        assert answer.json()["prediction"] == pytest.approx(expected[0].tolist(), abs=1e-3)

    @pytest.mark.parametrize("value", [1e305, 1.7e308])
    async def test_the_largest_numbers_give_valid_json(self, client, value):
        answer = await client.post("/predict", json={"data": [*DATA[:2], [value] * 5]})
        assert answer.status_code == 200
        prediction = json.loads(answer.content, parse_constant=pytest.fail)["prediction"]
        assert prediction == pytest.approx([value] * 5)

    @pytest.mark.parametrize(
        ("data", "shape"),
        [
            (DATA[:2], "(2, 5)"),
            ([*DATA, DATA[0]], "(4, 5)"),
            ([row[:4] for row in DATA], "(3, 4)"),
            ([*DATA[0], *DATA[1], *DATA[2]], "(15,)"),
            ([DATA], "(1, 3, 5)"),
            ([], "(0,)"),
            ([[], [], []], "(3, 0)"),
            (7, "()"),
            ("text", "()"),
            ({}, "()"),
            (True, "()"),
            ([DATA[0], DATA[1], DATA[2][:4]], "ragged rows"),
            ([DATA[0], DATA[1], 3], "ragged rows"),
            ([DATA[0], DATA[1], None], "ragged rows"),
            ([[1, 2, 3, 4, [5]], DATA[1], DATA[2]], "ragged rows"),
        ],
    )
    async def test_wrong_shape(self, client, data, shape):
        answer = await client.post("/predict", json={"data": data})
        assert answer.status_code == 400
        assert answer.json() == {"detail": f"Expected shape (3, 5), got {shape}"}

    @pytest.mark.parametrize(
        "value", ['"1"', "true", "null", "NaN", "Infinity", "-Infinity", "{}", "1e999", "9" * 400]
    )
    async def test_not_a_finite_number(self, client, value):
        body = json.dumps({"data": DATA}).replace("34.5", value)
        answer = await client.post("/predict", content=body)
        assert answer.status_code == 400
        assert answer.json() == {"detail": "data[2][4] must be a finite number"}

    @pytest.mark.parametrize("body", ["{}", '{"data": null}', '{"Data": []}'])
    async def test_data_missing(self, client, body):
        answer = await client.post("/predict", content=body)
        assert answer.status_code == 400
        assert answer.json()["detail"] == "data is required: Expected shape (3, 5), got nothing"

    async def test_failing_model(self, service, client):
        class Broken:
            def __call__(self, densities):
                raise ValueError("no luck")

        service.slot.model = (Broken(), "[]")
        answer = await client.post("/predict", json={"data": DATA})
        assert (answer.status_code, answer.json()) == (500, {"detail": "Prediction error: no luck"})


class TestStatus:
    async def test_health(self, client):
        answer = await client.get("/health")
        assert answer.json() == {"status": "healthy", "message": "Model loaded and ready"}

    async def test_model_info(self, client):
        info = (await client.get("/model-info")).json()
        assert info.pop("description")
        assert info == {
            "model_type": "LSTM",
            "input_shape": [3, 5],
            "output_shape": [5],
            "edges": list(EDGES),
            "test_loss": CARD.test_loss,
            "test_mae": CARD.test_mae,
        }


async def test_drift_is_the_share_of_values_outside_the_training_range(service, client):
    inside = [[20.0] * 5] * 3
    outside = [[20.0] * 5, [20.0] * 5, [1000.0, 20, 20, 20, -1]]
    for data in (inside, outside):
        await client.post("/predict", json={"data": data})
    _, drift = service.take_batches()
    assert drift == pytest.approx({"a": 1 / 6, "b": 0, "c": 0, "d": 0, "e": 1 / 6})
    assert service.predictions == {"all": 2}
