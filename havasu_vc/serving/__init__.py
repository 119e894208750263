"""The repository as an Iceberg REST catalog: any engine reads any branch, tag or commit.

A warehouse is a ref, the folders of a dataset's path are namespaces, and the metadata of a table
follows from git alone, so that servers on one repository agree. `app` is an ASGI application.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.serving.application import app as app
    from havasu_vc.serving.catalog import ServeSettings as ServeSettings
    from havasu_vc.serving.client_config import CatalogAddress as CatalogAddress
    from havasu_vc.serving.client_config import settings_for as settings_for
    from havasu_vc.serving.client_config import spark_settings as spark_settings
    from havasu_vc.serving.server import ServerAddress as ServerAddress
    from havasu_vc.serving.server import serve as serve

__getattr__ = loads(
    __name__,
    {
        "application": ["app"],
        "catalog": ["ServeSettings"],
        "client_config": ["CatalogAddress", "settings_for", "spark_settings"],
        "server": ["ServerAddress", "serve"],
    },
)
