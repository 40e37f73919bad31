"""Every environment variable that the services read, typed, in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from deployments.store import StoreUnavailable

_WEIGHTS = Path(__file__).resolve().parent.parent / "models" / "weights"


def _usual_data_dir() -> Path:
    return Path.home() / ".local" / "share" / "greenwave"


def _collector(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PydanticCustomError("collector", "a URL is http:// or https:// with a host")
    return url


class InsecureSettingsError(ValueError):
    """The settings would make an unsafe system; the message is one clear sentence."""


class Settings(BaseSettings):
    """Read when an application is built, in the process that deploys it."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True)

    data_dir: Path = Field(
        default_factory=_usual_data_dir,
        description="Folder of the embedded store and the secrets.",
    )
    store_url: str | None = Field(
        None,
        description="Store of the records, the users and the copies of hidden states.",
        json_schema_extra={
            "default": "SQLite in `DATA_DIR`",
            "range": "`sqlite:///PATH`, `redis://…`, `rediss://…`",
        },
    )
    environment: Literal["development", "production"] = Field(
        "development",
        description="Kind of installation; `production` refuses a generated signing key.",
    )

    network_path: Path | None = Field(
        None,
        description="File of the road network that is served.",
        json_schema_extra={"default": "the five junctions of the documents"},
    )
    mappo_agent_path: Path = Field(
        _WEIGHTS / "agent.th", description="File of the policy, in the `agent.th` form."
    )
    density_model_path: Path = Field(
        _WEIGHTS / "density.safetensors",
        description="File of the density model; its card lies beside it.",
    )
    flow_model_path: Path = Field(
        _WEIGHTS / "flow.safetensors",
        description="File of the flow model; its card lies beside it.",
    )

    rl_inference_service_url: str | None = Field(
        None,
        description="Inference service that the gateway asks: a whole URL that ends with "
        "`/predict_action`.",
        json_schema_extra={"default": "the system's own"},
    )
    inference_token: SecretStr | None = Field(
        None,
        description="Token that the inference service asks every client for, and that the gateway, "
        "the demo and the load tests send.",
        json_schema_extra={"default": "it asks for none", "range": "≥ 32 bytes of printable ASCII"},
    )
    inference_token_file: Path | None = Field(
        None,
        description="File with such a token in place of `INFERENCE_TOKEN`, with mode 0600 or 0440. "
        "Of several, one a line, each is good, and the first is sent.",
        json_schema_extra={"default": "no file"},
    )
    jwt_secret: SecretStr | None = Field(
        None,
        description="Key that signs the access tokens.",
        json_schema_extra={
            "default": "made on the first start, kept with mode 0600",
            "range": "≥ 32 bytes",
        },
    )
    jwt_keys_file: Path | None = Field(
        None,
        description="File with the keys that sign access tokens, where `greenwave keys` changes "
        "them; a file that is there goes before `JWT_SECRET`.",
        json_schema_extra={"default": "`jwt-keys.json` in `DATA_DIR`, if there is one"},
    )
    jwt_expiration_minutes: int = Field(
        60, ge=1, le=60 * 24 * 365, description="Lifetime of an access token."
    )
    jwt_auth_username: str | None = Field(
        None,
        description="Name of a user for a quick start, set together with `JWT_AUTH_PASSWORD`.",
        json_schema_extra={"default": "`operator`, made on the first start"},
    )
    jwt_auth_password: SecretStr | None = Field(
        None,
        description="Password of the user `JWT_AUTH_USERNAME`.",
        json_schema_extra={"default": "made and shown on the first start, kept with mode 0600"},
    )
    loans_update_validation_status: Annotated[Literal[200, 400], BeforeValidator(int)] = Field(
        200,
        description="Status that answers an update of a loan with invalid fields; the other record "
        "services answer 400.",
        json_schema_extra={"unit": "HTTP status"},
    )

    log_format: Literal["text", "json"] = Field(
        "text",
        description="Form of the lines in the logs. `json` has `make up` and `make deploy` put "
        "`encoding: JSON` into the `logging_config` of the serve config, and the supervisors "
        "write JSON, too; `text` leaves the services to the config.",
    )
    access_log_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the requests that get a line in their replica's log. Answers of 500 "
        "and above always do, one a second of each replica at most.",
        json_schema_extra={"unit": "of 1"},
    )
    otel_exporter_otlp_endpoint: Annotated[str, AfterValidator(_collector)] | None = Field(
        None,
        description="Base URL of an OpenTelemetry collector that takes OTLP over HTTP. With it, "
        "requests are traced.",
        json_schema_extra={"default": "no traces", "range": "`http://…`, `https://…`"},
    )
    otel_traces_sampler_arg: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of the requests that are traced, of those that come without a "
        "`traceparent` of their own.",
        json_schema_extra={"unit": "share"},
    )

    edge_host: str = Field(
        "127.0.0.1",
        description="Address that the edge listens on with all ports but 8000.",
    )
    edge_inference_host: str = Field(
        "127.0.0.1",
        description="Address that the edge listens on with port 8000, which leads to services "
        "without login and is plain HTTP: for a network of one's own, such as a container's.",
    )
    edge_certificate: Path | None = Field(
        None,
        description="PEM file with certificate, chain and key; with it, the edge speaks HTTPS "
        "alone, but on port 8000.",
        json_schema_extra={"default": "plain HTTP"},
    )

    @classmethod
    def of_instance(cls, port_base: int | None) -> Self:
        """Read the settings of the instance at these ports; a second one has its own folder."""
        settings = cls()
        if port_base:
            return cls(data_dir=settings.data_dir / f"ports-{port_base}")
        return settings

    @staticmethod
    def usual_data_dir() -> Path:
        """Return the folder where nobody names another."""
        return _usual_data_dir()

    @property
    def resolved_store_url(self) -> str:
        return self.store_url or f"sqlite:///{self.data_dir / 'greenwave.db'}"

    def existing_store_url(self) -> str:
        """Return the store's URL for commands that read: an embedded store must be there already.

        Raises:
            StoreUnavailable: there is no such file; a mistyped name must not seem an empty store.
        """
        url = self.resolved_store_url
        path = Path(url.removeprefix("sqlite:///"))
        if url.startswith("sqlite:///") and not path.exists():
            raise StoreUnavailable(
                f"There is no store at {path.absolute()}; are STORE_URL, DATA_DIR and --port-base"
                " those of `make up`?"
            )
        return url
