"""Values: schema, key, change, bounds, reference system, task. No files, no git."""
