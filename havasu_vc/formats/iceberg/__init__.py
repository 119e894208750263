"""Apache Iceberg's documents: table metadata, manifest lists and manifests. No IO."""
