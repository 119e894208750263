"""A third kind of dataset, `lines`, which stands here alone: nothing of the product knows it.

    parcels/.lines-dataset/
      columns/schema.json     the columns, and the highest id that a column had
      meta/title              and description, and crs/NAME.wkt
      rows.jsonl              a row a line by key: the values by the ids of their columns

It is for tests: whoever asks a dataset for its kind, instead of asking the dataset, stumbles
over it. All rows are in memory, and correctness counts, not speed.
"""

from havasu_vc.datasets.kinds import DatasetKind

MARKER = ".lines-dataset"
LINES = DatasetKind(
    "lines",
    {MARKER: 1},
    "rows.jsonl",
    in_files=False,
    package="tests.third_kind",
    documents=("columns/schema.json",),
    told={"type": "table", "version": 1, "format": "lines"},
)
"""The row that makes it a kind."""
