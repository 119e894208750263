"""The documents of a Havasu dataset, each as bytes and as a value.

    <path>/.havasu-dataset/
      dataset.json              properties
      columns/…                 columns
      meta/title, description   plain text
      meta/partition.json       layout.PartitionSpec
      meta/sort-order.json      layout.SortOrder
      meta/crs/<id>.wkt         plain text
      files/<2>/<40 hex>.json   deltas.Delta, of entry.Entry
      edits/…                   markers
      data/<2>/<sha256>         formats.lfs

Every document is JSON with keys in a fixed order, one fact a line or packed into one line, so
that equal values give equal bytes. Parsing is bounded and refuses what it does not understand.
"""
