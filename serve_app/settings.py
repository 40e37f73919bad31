"""The environment variables of the services and the launcher."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from deployments.store import SQLITE_PREFIX, StoreUnavailable

_WEIGHTS = Path(__file__).resolve().parent.parent / "models" / "weights"


def usual_data_dir() -> Path:
    """Return the default data folder."""
    return Path.home() / ".local" / "share" / "greenwave"


def _collector(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PydanticCustomError("collector", "the URL must be http:// or https:// with a host")
    return url


def _host_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(","))
    if not all(re.fullmatch(r"[a-z0-9_.-]+|\[[0-9a-f:.]+\]", name) for name in names):
        raise PydanticCustomError("hosts", "names of hosts have no scheme and no port")
    return names


class InsecureSettingsError(ValueError):
    """The settings would make the system unsafe; the message is one sentence."""


def variables_of(part: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the environment variables that a part of a serve config sets for its processes."""
    return (part.get("runtime_env") or {}).get("env_vars") or {}


def read_secret_file(path: Path, what: str, max_bytes: int) -> bytes:
    """Read a file with secrets.

    Args:
        what: its content, for the error.

    Raises:
        InsecureSettingsError: every user can read it, it is too large, or it cannot be read.
    """
    try:
        found = path.stat()
        if found.st_mode & 0o007:
            raise InsecureSettingsError(
                f"{path} has {what}, and every user can read it. Set its mode to 0600."
            )
        if found.st_size > max_bytes:
            raise InsecureSettingsError(f"{path} is larger than {max_bytes} bytes.")
        return path.read_bytes()
    except OSError as error:
        raise InsecureSettingsError(f"Cannot read {path}: {error.strerror}.") from None


class Settings(BaseSettings):
    """Settings from the environment, read in the process that builds an application."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True)

    data_dir: Path = Field(
        default_factory=usual_data_dir,
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
        description="Kind of installation. `production` refuses a generated signing key.",
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
        description="File of the density model; its model card is beside it.",
    )
    flow_model_path: Path = Field(
        _WEIGHTS / "flow.safetensors",
        description="File of the flow model; its model card is beside it.",
    )

    rl_inference_service_url: str | None = Field(
        None,
        description="URL of the inference service for the gateway; it ends with `/predict_action`.",
        json_schema_extra={"default": "that of the same system"},
    )
    inference_token: SecretStr | None = Field(
        None,
        description="Token that clients of the inference service must send.",
        json_schema_extra={"default": "no token", "range": "≥ 32 bytes of printable ASCII"},
    )
    inference_token_file: Path | None = Field(
        None,
        description="File with such tokens, one a line, with mode 0600 or 0440. Each is good, and "
        "the first is sent.",
        json_schema_extra={"default": "no file"},
    )
    jwt_secret: SecretStr | None = Field(
        None,
        description="Key that signs the access tokens.",
        json_schema_extra={
            "default": "created on the first start, kept with mode 0600",
            "range": "≥ 32 bytes",
        },
    )
    jwt_keys_file: Path | None = Field(
        None,
        description="File with the keys that sign access tokens, where `greenwave keys` changes "
        "them. If it is set, the file must exist; `JWT_SECRET` is then ignored.",
        json_schema_extra={"default": "`jwt-keys.json` in `DATA_DIR`, if there is one"},
    )
    jwt_expiration_minutes: int = Field(
        60, ge=1, le=60 * 24 * 365, description="Lifetime of an access token."
    )
    jwt_auth_username: str | None = Field(
        None,
        description="Name of a user for a quick start, set together with `JWT_AUTH_PASSWORD`.",
        json_schema_extra={"default": "`operator`, created on the first start"},
    )
    jwt_auth_password: SecretStr | None = Field(
        None,
        description="Password of the user `JWT_AUTH_USERNAME`.",
        json_schema_extra={"default": "created and shown on the first start, kept with mode 0600"},
    )
    loans_update_validation_status: Annotated[Literal[200, 400], BeforeValidator(int)] = Field(
        200,
        description="Status that answers an update of a loan with invalid fields.",
    )

    log_format: Literal["text", "json"] = Field(
        "text",
        description="Format of log lines, of the supervisor, too. `text` leaves the services to "
        "the `logging_config` of the serve config.",
    )
    access_log_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the requests with a line in the access log.",
    )
    otel_exporter_otlp_endpoint: Annotated[str, AfterValidator(_collector)] | None = Field(
        None,
        description="Base URL of an OpenTelemetry collector (OTLP over HTTP). Turns tracing on.",
        json_schema_extra={"default": "no traces", "range": "`http://…`, `https://…`"},
    )
    otel_traces_sampler_arg: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of the requests without a `traceparent` that are traced.",
    )

    edge_host: str = Field(
        "127.0.0.1",
        description="Address that the edge binds all ports but 8000 to.",
    )
    edge_inference_host: str = Field(
        "127.0.0.1",
        description="Address that the edge binds port 8000 to: plain HTTP, to the inference "
        "service. Open it only to a private network, such as a container's.",
    )
    edge_allowed_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_host_names)] = Field(
        (),
        validate_default=False,
        description="Names by which clients reach the edge, and whose pages may call it. If set, "
        "requests with another `Host` get 403.",
        json_schema_extra={
            "default": "names of this machine at loopback addresses",
            "range": "`NAME,NAME`, without ports",
        },
    )
    edge_certificate: Path | None = Field(
        None,
        description="PEM file with certificate, chain and key. It makes the edge speak only HTTPS, "
        "except on port 8000.",
        json_schema_extra={"default": "plain HTTP"},
    )

    @classmethod
    def of_instance(cls, port_base: int | None) -> Self:
        """Return the settings of an instance; one with a port base has a separate folder."""
        settings = cls()
        if port_base:
            return cls(data_dir=settings.data_dir / f"ports-{port_base}")
        return settings

    @property
    def resolved_store_url(self) -> str:
        return self.store_url or f"{SQLITE_PREFIX}{self.data_dir / 'greenwave.db'}"

    @property
    def embedded_store(self) -> Path | None:
        """The file of the embedded store; None if the store is a Redis."""
        url = self.resolved_store_url
        return Path(url.removeprefix(SQLITE_PREFIX)) if url.startswith(SQLITE_PREFIX) else None

    def existing_store_url(self) -> str:
        """Return the store's URL, if an embedded store exists.

        Raises:
            StoreUnavailable: its file does not exist; a mistyped name must not seem an empty store.
        """
        path = self.embedded_store
        if path is not None and not path.exists():
            raise StoreUnavailable(
                f"There is no store at {path.absolute()}. Use the STORE_URL, DATA_DIR and"
                " --port-base of `greenwave up`."
            )
        return self.resolved_store_url
