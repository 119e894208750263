"""The documents of a Havasu dataset, each as bytes and as a value.

    <path>/.havasu-dataset/
      snapshot.json             documents.Snapshot
      meta/title, description   plain text
      meta/schema.json          schema.parse_schema
      meta/partition.json       layout.PartitionSpec
      meta/sort-order.json      layout.SortOrder
      meta/properties.json      properties
      meta/crs/<id>.wkt         plain text
      meta/past/<hash>.json     any of schema, partition, sort order
      files/<2>/<sha256>.json   entry.Entry
      data/<2>/<sha256>         formats.lfs

Every document is JSON with keys in a fixed order and one fact a line, so that equal
values give equal bytes. Parsing is bounded and refuses what it does not understand.
"""
