"""One call of every route, and where the committed OpenAPI documents describe it."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from greenwave.client import Account, Card, Customer, Loan, Observed, Sample, Shown
from greenwave.client.call import Call
from greenwave.client.forecasts import Density, Flow
from greenwave.client.gateway import Gateway, Run
from greenwave.client.inference import Inference, InferenceRun
from greenwave.client.inputs import run_headers
from greenwave.client.login import Login
from greenwave.client.records import Accounts, Cards, Loans
from greenwave.client.tensors import HEADER_LENGTH
from tests.documentation import ROOT

DOCUMENTS = {
    file.stem: json.loads(file.read_text()) for file in Path(ROOT, "docs/openapi").glob("*.json")
}
# The prefix of each service, which is not in the paths of its document.
PREFIXES = {"gateway": "/api", "density": "/density", "flow": "/flow"}

JUNCTION, OBSERVATION, MOBILE = "300839359", [1, 0, 1, 0.4], "4354437687"
SAMPLE = Sample(1_700_000_000, 12, 31.5, 0.04)
CUSTOMER = Customer(
    name="Ann Miller",
    email="ann@example.org",
    mobile_number=MOBILE,
    account=Account(account_number=1234567890, account_type="Savings", branch_address="Here"),
)
LOAN = Loan(
    mobile_number=MOBILE,
    loan_number="123456789012",
    loan_type="Home Loan",
    total_loan=1,
    amount_paid=0,
    outstanding_amount=1,
)
CARD = Card(
    mobile_number=MOBILE,
    card_number="123456789012",
    card_type="Credit Card",
    total_limit=1,
    amount_used=0,
    available_amount=1,
)


class Made(NamedTuple):
    """A call of a service, and the part of the document that describes it."""

    service: str
    call: Call[Any]

    @property
    def path(self) -> str:
        path = self.call.url.partition("?")[0].removeprefix(PREFIXES.get(self.service, ""))
        return path.replace("/runs/run-1", "/runs/{run}")

    @property
    def operation(self) -> Any:
        return DOCUMENTS[self.service]["paths"][self.path][self.call.method.lower()]

    @property
    def is_binary(self) -> bool:
        return HEADER_LENGTH in self.call.headers or self.path.endswith("/state")

    @property
    def json(self) -> Any:
        """The JSON of the request, behind which binary tensors may be."""
        length = self.call.headers.get(HEADER_LENGTH)
        return json.loads((self.call.body or b"")[: int(length) if length else None])

    def schema(self, content: Any) -> Any:
        """Return a schema with the components that it refers to."""
        components = DOCUMENTS[self.service].get("components", {})
        return {**content["content"]["application/json"]["schema"], "components": components}


def calls_of(kind: type[Any], *arguments: Any) -> Any:
    """Return a service whose methods return calls, not their results."""
    return kind(lambda call: call, "", *arguments)


def calls() -> Iterator[tuple[str, Iterable[Call[Any]]]]:
    """Yield the calls of each service."""
    run, direct = calls_of(Run, run_headers("run-1")), calls_of(InferenceRun, "run-1")
    services = {
        "gateway": calls_of(Gateway),
        "inference": calls_of(Inference),
        "density": calls_of(Density),
        "flow": calls_of(Flow),
        "accounts": calls_of(Accounts),
        "loans": calls_of(Loans),
        "cards": calls_of(Cards),
    }
    for name, service in services.items():
        yield name, [service.livez(), service.readyz()]
        if name in ("accounts", "loans", "cards"):
            yield name, [service.fetch(MOBILE), service.delete(MOBILE), service.say_hello()]
        else:
            yield name, [service.health()]
        if name in ("inference", "density", "flow"):
            yield name, [service.model_info()]
    yield (
        "gateway",
        [
            Login("", "ann", "secret").call,
            run.act(JUNCTION, OBSERVATION, metadata="peak"),
            run.act(JUNCTION, [1, 0, 1, 4, 5, 6, 7, 8], vehicle_counts=True),
            run.act(JUNCTION, OBSERVATION, simulation_time_s=27_000),
            run.act(JUNCTION, OBSERVATION, shown=Shown(0, 20, [0, 34])),
            run.demo(),
            run.reset(),
        ],
    )
    inference = services["inference"]
    yield (
        "inference",
        [
            direct.predict(JUNCTION, OBSERVATION),
            direct.predict_many(
                [(JUNCTION, OBSERVATION), Observed(JUNCTION, OBSERVATION, "key-1")]
            ),
            direct.reset(),
            direct.info(),
            direct.end(),
            direct.fork("run-2"),
            direct.export(),
            direct.restore(b"file"),
            inference.runs(),
            inference.infer([OBSERVATION], [JUNCTION], runs="run-1"),
            inference.infer([OBSERVATION], [1], runs="run-1", request_ids=["key-1"]),
        ],
    )
    yield "density", [services["density"].predict([[1.5] * 5] * 3)]
    yield "flow", [services["flow"].forecast(JUNCTION, [SAMPLE])]
    accounts, loans, cards = services["accounts"], services["loans"], services["cards"]
    yield "accounts", [accounts.create("Ann Miller", "ann@example.org", MOBILE)]
    yield "accounts", [accounts.update(CUSTOMER)]
    yield "loans", [loans.create(MOBILE), loans.update(LOAN)]
    yield "cards", [cards.create(MOBILE), cards.update(CARD)]


CALLS = [Made(service, call) for service, made in calls() for call in made]
# Binary answers are those of test_infer.py.
NAMED = {
    f"{made.call.method} {made.call.url.partition('?')[0]}": made
    for made in CALLS
    if not made.is_binary
}
