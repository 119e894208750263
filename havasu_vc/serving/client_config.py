"""Settings by which a client finds the catalog, as each of them reads settings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

from havasu_vc.records import dataclass
from havasu_vc.serving.keys import ASKED, VENDED
from havasu_vc.store.object_urls import s3_settings

__all__ = ["CLIENTS", "CatalogAddress", "settings_for", "spark_settings"]

TOKEN = "TOKEN"
"""The place of the token, which nobody but its owner knows."""
_ASKING = f"header.{ASKED}"
_STORES = {"gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure"}


@dataclass(frozen=True, slots=True)
class CatalogAddress:
    """All that a client has to know."""

    url: str
    """Where the catalog is."""
    warehouse: str = ""
    """The ref; none for the branch that HEAD is on."""
    token: bool = False
    """Whether a token is asked for."""
    bucket: str | None = None
    """The URL of the bucket that its files are in; None where clients see the server's folder."""


def spark_settings(address: CatalogAddress, name: str = "havasu") -> dict[str, str]:
    """Return the settings of a catalog of Spark."""
    start = f"spark.sql.catalog.{name}"
    settings = {
        start: "org.apache.iceberg.spark.SparkCatalog",
        f"{start}.type": "rest",
        f"{start}.uri": address.url,
        # With its cache, Spark would not see what others commit.
        f"{start}.cache-enabled": "false",
    }
    if address.warehouse:
        settings[f"{start}.warehouse"] = address.warehouse
    if address.token:
        settings[f"{start}.token"] = TOKEN
    if address.bucket is not None:
        settings |= {f"{start}.{_ASKING}": VENDED}
    return settings


def _pyiceberg(address: CatalogAddress) -> str:
    lines = ["# ~/.pyiceberg.yaml", "catalog:", "  havasu:", "    type: rest"]
    lines.append(f"    uri: {json.dumps(address.url)}")
    if address.warehouse:
        lines.append(f"    warehouse: {json.dumps(address.warehouse)}")
    if address.token:
        lines.append(f"    token: {TOKEN}")
    return "\n".join(lines)


def _duckdb(address: CatalogAddress) -> str:
    options = ["TYPE iceberg", f"ENDPOINT {_quoted(address.url)}"]
    lines = ["INSTALL iceberg;", "LOAD iceberg;"]
    if address.token:
        lines.append(f"CREATE SECRET havasu (TYPE iceberg, TOKEN '{TOKEN}');")
        options.append("SECRET havasu")
    else:
        options.append("AUTHORIZATION_TYPE 'none'")
    lines.append(f"ATTACH {_quoted(address.warehouse)} AS havasu ({', '.join(options)});")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _spark(address: CatalogAddress) -> str:
    return "\n".join(f"{name} {value}" for name, value in spark_settings(address).items())


def _trino(address: CatalogAddress) -> str:
    lines = [
        "# etc/catalog/havasu.properties",
        "connector.name=iceberg",
        "iceberg.catalog.type=rest",
        f"iceberg.rest-catalog.uri={address.url}",
        "iceberg.rest-catalog.nested-namespace-enabled=true",
        "iceberg.allowed-extra-properties=havasu.key",
    ]
    if address.bucket is None:
        lines += ["fs.native-local.enabled=true", "local.location=/"]
    else:
        store = _STORES.get(address.bucket.partition("://")[0], "s3")
        lines.append(f"fs.native-{store}.enabled=true")
        lines.append("iceberg.rest-catalog.vended-credentials-enabled=true")
        lines += _trino_s3() if store == "s3" else []
    if address.warehouse:
        lines.append(f"iceberg.rest-catalog.warehouse={address.warehouse}")
    if address.token:
        lines.append("iceberg.rest-catalog.security=OAUTH2")
        lines.append(f"iceberg.rest-catalog.oauth2.token={TOKEN}")
    return "\n".join(lines)


def _trino_s3() -> list[str]:
    """Return where S3 is, which Trino takes from no catalog."""
    said = s3_settings(os.environ)
    lines = [] if said.region is None else [f"s3.region={said.region}"]
    if said.endpoint is not None:
        lines += [f"s3.endpoint={said.endpoint}", "s3.path-style-access=true"]
    return lines


def _flink(address: CatalogAddress) -> str:
    options = {"type": "iceberg", "catalog-type": "rest", "uri": address.url}
    if address.warehouse:
        options["warehouse"] = address.warehouse
    if address.token:
        options["token"] = TOKEN
    if address.bucket is not None:
        options[_ASKING] = VENDED
    inside = ",\n".join(f"  '{name}' = {_quoted(value)}" for name, value in options.items())
    return f"CREATE CATALOG havasu WITH (\n{inside}\n);"


CLIENTS: Mapping[str, Callable[[CatalogAddress], str]] = MappingProxyType(
    {
        "pyiceberg": _pyiceberg,
        "duckdb": _duckdb,
        "spark": _spark,
        "trino": _trino,
        "flink": _flink,
    }
)
"""The clients whose settings are known."""


def settings_for(client: str, address: CatalogAddress) -> str:
    """Return what to write where a client looks for its settings, or to tell it."""
    return CLIENTS[client](address)
