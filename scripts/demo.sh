#!/usr/bin/env bash
# The main job from end to end, in a scratch folder, showing each command before it runs.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export GIT_AUTHOR_NAME="A. Surveyor" GIT_AUTHOR_EMAIL="surveyor@example.com"
export GIT_COMMITTER_NAME="$GIT_AUTHOR_NAME" GIT_COMMITTER_EMAIL="$GIT_AUTHOR_EMAIL"
export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '\033[36m$ %s\033[0m\n' "${*@Q}" | sed "s/'\([A-Za-z0-9@./:=~^,+_-]*\)'/\1/g"; "$@"; }
program() { # Show a Python program, and run it.
    sed 's/^/    /' "$1"
    run python "$1"
}
has_java() { "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version >/dev/null 2>&1; }

say "havasu-vc is version control for tables that hold geometries and rasters."
run havasu-vc version

say "1. A table to work on: 20,000 trees of a city, as GeoParquet. This is only test data."
cat >make_trees.py <<'PY'
import numpy as np, pyarrow as pa, pyarrow.parquet as pq, shapely, json

n, draw = 20_000, np.random.default_rng(1)
points = shapely.points(174.7 + draw.random(n) / 10, -36.9 + draw.random(n) / 10)
trees = pa.table({
    "id": np.arange(1, n + 1),
    "species": draw.choice(["pohutukawa", "kauri", "totara", "puriri"], n),
    "height": draw.integers(20, 300, n) / 10,
    "geom": shapely.to_wkb(points),
})
geo = {"version": "1.1.0", "primary_column": "geom",
       "columns": {"geom": {"encoding": "WKB", "geometry_types": ["Point"]}}}
pq.write_table(trees.replace_schema_metadata({"geo": json.dumps(geo)}), "trees.parquet")
PY
run python make_trees.py

say "2. A repository is an ordinary git repository. Import the table; 'id' tells rows apart."
run havasu-vc init city
cd city
run havasu-vc import ../trees.parquet --primary-key id
run havasu-vc data ls
run git status --short --branch

say "3. Work from Python: rows by key, as Arrow. Only the rows that change are stored."
cat >../upsert.py <<'PY'
import pyarrow as pa, pyarrow.compute as pc
from havasu_vc import Repo

repo = Repo.open(".")
measured = pa.table({"id": [7, 4417], "height": [31.5, 28.0]})      # columns not given stay
repo.write("trees", measured, message="Measure two trees again")
felled = pa.table({"id": [12, 13]})
repo.write("trees", felled, mode="delete", message="Two trees were felled")
trees = repo.table("trees").to_arrow()
print(trees.num_rows, "trees, the highest of", pc.max(trees["height"]), "m")
PY
program ../upsert.py

say "4. See what happened: the commits, the rows of one of them, and one row through time."
run havasu-vc log --oneline
run havasu-vc show HEAD~1
run havasu-vc diff HEAD~2...HEAD -o feature-count
run havasu-vc diff HEAD~2...HEAD trees:feature:4417

say "5. Take in the next release of the table: it is compared by key, and only changes are committed."
cat >../next_release.py <<'PY'
import pyarrow.compute as pc, pyarrow.parquet as pq

trees = pq.read_table("../trees.parquet")
was_wrong = pc.less(trees["id"], 100)
trees = trees.set_column(1, "species", pc.if_else(was_wrong, "rimu", trees["species"]))
pq.write_table(trees, "../trees-2026.parquet")
PY
program ../next_release.py
run havasu-vc import ../trees-2026.parquet trees --replace -m "Release of 2026"
run havasu-vc diff HEAD^...HEAD -o feature-count

say "6. Edit on a branch with QGIS, or whatever edits a GeoPackage; here sqlite3 plays its part."
run havasu-vc switch -c park
run havasu-vc checkout --as ../park.gpkg trees
cat >../edit.py <<'PY'
import sqlite3

with sqlite3.connect("../park.gpkg") as layer:
    for name in ("IsEmpty", "MinX", "MaxX", "MinY", "MaxY"):    # for its index
        layer.create_function(f"ST_{name}", 1, lambda shape: None)
    layer.execute("UPDATE trees SET species = 'nikau' WHERE id = 500")
PY
program ../edit.py
run havasu-vc commit --from ../park.gpkg -m "Tree 500 is a nikau"
run havasu-vc show

say "7. Send a commit as a patch, and apply it on the other branch."
run havasu-vc create-patch --output ../nikau.json
run havasu-vc switch main
run havasu-vc apply ../nikau.json

say "8. Merge a branch, cell by cell: tree 7 was edited on both sides, in different columns."
run havasu-vc switch -c survey
cat >../survey.py <<'PY'
import pyarrow as pa
from havasu_vc import Repo

repo = Repo.open(".")
repo.write("trees", pa.table({"id": [7, 4417], "height": [33.0, 29.5]}), message="Survey")
repo.switch("main")
repo.write("trees", pa.table({"id": [7], "species": ["matai"]}), message="Tree 7 is a matai")
repo.write("trees", pa.table({"id": [4417], "height": [27.0]}), message="Storm damage")
PY
program ../survey.py
run havasu-vc merge survey
say "   The height of tree 4417 was changed to two values. That waits; all else is merged."
run havasu-vc conflicts
run havasu-vc resolve trees:feature:4417 --column height=ours
run havasu-vc merge --continue -m "Survey of spring"
run havasu-vc show HEAD

say "9. Look after the names of things: titles and columns are versioned too."
run havasu-vc meta set trees "title=Trees of the city"
run havasu-vc tag v1 -m "As published"

say "10. Give out: any revision, any format; or only what changed, for a map."
run havasu-vc export trees ../trees.gpkg
run havasu-vc export trees@HEAD~2 ../trees-before.csv
run havasu-vc diff HEAD~2...HEAD -o geojson --output ../changes.geojson
head -c 300 ../changes.geojson
echo

say "11. All of it is git, and stays small: a commit stores what it changes."
run git log --oneline --all --graph
run git fsck
run du -sh --apparent-size .git

say "12. Review before a merge: what changed, how much, where, and what is odd; for a pull request."
run havasu-vc review HEAD~3...HEAD --samples 3
run havasu-vc review HEAD~3...HEAD -o html --output ../review.html

say "13. Share it: a clone has the data, and tables to query; pushes and pulls carry both."
run havasu-vc clone --bare . ../hub.git
run havasu-vc remote add origin ../hub.git
run havasu-vc push -u origin main
run havasu-vc clone ../hub.git ../colleague

say "14. Check it out: each dataset is an Iceberg table with geometries in tables/, by hard links."
run havasu-vc checkout
run du -sh --apparent-size tables
run git status --short

say "15. Ask it with SQL, at any revision; DuckDB answers."
run havasu-vc sql "SELECT species, count(*) AS trees, max(height) FROM trees GROUP BY species ORDER BY 1"
run havasu-vc sql 'SELECT new.id, old.species AS was, new.species FROM trees AS new
    JOIN "trees@HEAD~5" AS old USING (id) WHERE old.species <> new.species AND id > 400'

if ! has_java; then
    say "16. There is no JDK here, so the part with Spark is left out; install a JDK 17 to see it."
    exit 0
fi
say "16. Spark edits the checkout, with Iceberg's jar; the first time the jar is fetched."
cat >../grow.sql <<'SQL'
UPDATE havasu.trees SET height = height + 0.5 WHERE id % 4000 = 0;
DELETE FROM havasu.trees WHERE id = 19;
SQL
sed 's/^/    /' ../grow.sql
if run havasu-vc sql -f ../grow.sql; then
    run havasu-vc status
    run havasu-vc diff
    run havasu-vc commit -m "A year has passed"
    run havasu-vc log -n 1
else
    say "    Iceberg's jar cannot be had here, so this step is left out."
fi

say "Next: docs/getting-started/index.md does this in small steps."
