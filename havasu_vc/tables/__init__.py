"""Iceberg tables on a file system: read, compared, planned with their deletes, published."""
