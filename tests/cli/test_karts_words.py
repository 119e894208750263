"""Called kart, this program says of a result and of an error what Kart 0.17 says of it.

`karts_words.txt` has what Kart printed of each command line below. Where `HAVASU_VC_KART` names
a command that runs Kart, it is asked again, and `HAVASU_VC_KART_WORDS=new` writes the file anew
(in one process: without `-n`).
"""

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path
from unittest import mock

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git
from tests.support.templates import again

WORDS = Path(__file__).parent / "karts_words.txt"
KART = os.environ.get("HAVASU_VC_KART")
ROWS = "id,name\n1,one\n2,two\n3,three\n"
LINES = """\
clean: switch side
clean: switch main
clean: switch nosuch
clean: switch -c new
clean: switch -c new side
clean: switch -C side
clean: switch -c side
clean: switch
clean: checkout side
clean: checkout -b new
edited: diff --convert-to-dataset-format
edited: commit --no-convert-to-dataset-format -m x
edited: diff --delta-filter=ALL
remote: branch new origin/easy
edited: diff --crs=
clean: create-patch HEAD --crs=
merging: conflicts --crs=
merging: conflicts --crs nosuch
merging: resolve --with=ours ''
clean: switch ''
clean: switch -C '' side
clean: switch -c a -C b side
merging: switch
clean: checkout -b '' side
clean: checkout ''
resolved: checkout -f
clean: checkout --dataset=nosuch side
clean: checkout --dataset=table --not-dataset=table
clean: merge -m '' easy
clean: merge ''
clean: merge refs/heads/easy -m x
merging: merge --continue --abort
merging: merge --abort side
empty: merge side
clean: reset ''
bare: reset -f HEAD^
bare: restore -s HEAD^ table:feature:1
empty: restore table
edited: restore ''
edited: commit -m x 'tabl?'
edited: commit -m x table:
edited: commit -m x /table
edited: diff -- 'tabl?'
edited: diff table:
merging: conflicts table:
clean: log -- ''
empty: status --list-untracked-tables
clean: checkout -b new side
clean: checkout -b side
clean: checkout v1
clean: checkout nosuch
clean: checkout --not-dataset=table
clean: checkout --not-dataset=nosuch
edited: switch side
edited: switch --discard-changes side
edited: switch -c new
edited: checkout --discard-changes
edited: reset HEAD^
edited: reset --discard-changes
clean: reset
clean: reset HEAD^
clean: reset nosuch
clean: restore
edited: restore
edited: restore table
edited: restore table:feature:2
edited: restore nosuch
clean: restore -s HEAD^
clean: restore -s HEAD^ table:feature:1
clean: restore -s nosuch
clean: tag t
clean: tag v1
clean: tag -d v1
clean: tag -d nosuch
clean: branch new
clean: branch side
clean: branch -d side
clean: branch -D side
clean: branch -d nosuch
clean: branch -d main
clean: remote -v
clean: remote add origin x
clean: remote remove nosuch
clean: remote get-url nosuch
clean: fetch
clean: push origin main
clean: push nosuch
clean: gc
clean: mv table other -m Moved
clean: mv nosuch other
clean: data rm nosuch -m x
clean: data rm
clean: data rm table -m x
clean: data version
clean: data nosuch
clean: meta set table title=X
clean: meta set table title
clean: meta set nosuch title=X
clean: commit --allow-empty -m x
clean: commit -m x
edited: commit -m One -m Two
edited: commit -m x nosuch
clean: commit-files -m x a.txt=hello
clean: commit-files a.txt=hello
clean: apply patch.json
clean: apply easy.json
clean: apply --no-commit easy.json
clean: apply easy.json --ref nosuch
clean: apply nosuch.json
clean: apply bad.json
clean: apply none.json
clean: create-patch nosuch
clean: create-patch HEAD^..HEAD
clean: merge easy -m Both
clean: merge easy --dry-run
clean: merge easy --ff-only
clean: merge easy --no-ff --ff-only
clean: merge side
clean: merge side --dry-run
clean: merge --abort
clean: merge --continue
clean: merge easy --into side -m Both
clean: merge v1
clean: merge HEAD
clean: merge easy --no-editor
clean: merge nosuch
clean: merge A B
clean: merge easy
clean: merge easy -o json
clean: merge
edited: merge easy
clean: conflicts
clean: resolve table:feature:1 --with=ours
merging: status
merging: conflicts -ss
merging: conflicts --flat
merging: conflicts -s --flat
merging: conflicts -ss --flat
clean: build-annotations
clean: build-annotations main
merging: conflicts nosuch
merging: merge --abort
merging: merge --continue
merging: merge easy
merging: switch side
merging: commit -m x
merging: restore
merging: reset HEAD^
merging: resolve
merging: resolve table:feature:1
merging: resolve table:feature:1 --with=ours
merging: resolve table:feature:2 --with=ours
merging: resolve --with=ours
resolved: status
resolved: conflicts
resolved: conflicts -o json
resolved: conflicts -s -o json
resolved: conflicts -ss -o json
resolved: conflicts -s --flat -o json
resolved: conflicts -ss --flat -o json
resolved: conflicts --flat
resolved: conflicts --exit-code
resolved: resolve table:feature:1 --with=ours
resolved: merge --continue
resolved: merge --continue --no-editor
resolved: merge --continue --no-editor -o json
resolved: conflicts --exit-code nosuch
merging: merge --abort -o json
merging: conflicts --exit-code nosuch
merging: conflicts -o quiet nosuch
merging: resolve nosuch --renumber=ours
merging: resolve table:feature:77 --renumber=theirs
merging: meta set table title=x --amend
clean: create-workingcopy
clean: create-workingcopy other.gpkg
clean: create-workingcopy --delete-existing other.gpkg
clean: add-dataset nosuch
clean: add-dataset table
clean: diff nosuch...HEAD
clean: diff -- nosuch
clean: diff HEAD~99
clean: diff nosuch~1
clean: show HEAD^..HEAD
clean: show nosuch
clean: show nosuch~1
clean: log HEAD~99
clean: log nosuch~1
clean: log -o nosuch
clean: diff -o nosuch
clean: diff -o json:nosuch
clean: show -o nosuch
clean: show -o json:nosuch
clean: conflicts -o nosuch
clean: log --graph -o json
clean: export nosuch x.gpkg
clean: export table NOSUCH:x.gpkg
clean: import copy.gpkg table
clean: init
clean: nosuch
clean: comit -m x
clean: logg
clean: data lss
clean: log --nosuch
clean: log --grap
clean: commit --messag x
clean: commit --alow-empty -m x
clean: switch --creat x
clean: checkout --forc main
clean: status --nosuch
clean: meta set --mesage x
clean: commit -o nosuch -m x
clean: meta get -o nosuch
clean: status -o nosuch
clean: diff -o text:x
clean: diff --crs EPSG:999999
clean: diff HEAD^ --delta-filter=all -o json
clean: log -n x
clean: log -n
clean: log --graph=x
clean: log --decorate
clean: commit -m
clean: checkout -b
clean: diff --crs
clean: import
clean: table-export
clean: table-import --foo x.gpkg
clean: mv
clean: mv table
clean: add-dataset
clean: branch new nosuch
clean: tag x nosuch
clean: resolve a b
clean: resolve a
merging: branch
merging: branch new
merging: create-workingcopy
merging: status -o json
merging: meta set table title=x
merging: data rm table -m x
merging: resolve table:feature:1 --with=nosuch
merging: resolve table:feature:1 --renumber=ours
resolved: status -o json
several: status
several: status -o json
several: diff
several: commit -m x
several: create-workingcopy -f --delete-existing
behind: merge main -o json
behind: merge main --dry-run -o json
behind: commit --allow-empty -m x
empty: switch -
empty: checkout -
empty: checkout -b new
clean: meta get table title nosuch
clean: diff [EMPTY] table:feature:1
clean: diff HEAD...[EMPTY] table:feature:1
edited: merge nosuch
edited: merge HEAD --no-ff --ff-only
edited: merge HEAD^ --dry-run
edited: mv nosuch x
edited: mv table table
edited: mv table .bad
edited: commit table:nosuch -m x
edited: restore table:nosuch
several: diff HEAD^
several: diff HEAD^ table:feature:2
several: diff table:feature:2
several: diff table:feature:20
several: commit -m x -o json
without: status
without: status -o json
dropped: status
dropped: status -o json
dropped: commit -m x
dropped: commit -m x -o json
described: diff table:meta:nosuch
described: commit table:meta:title -m x
empty: diff HEAD
empty: show HEAD
empty: checkout
empty: checkout main
empty: switch main
empty: switch nosuch
mixed_merging: conflicts -s -o geojson places
mixed_merging: conflicts -ss --flat -o geojson words
mixed_merging: resolve places:feature:9 --renumber=ours
mixed_merging: resolve places --renumber=theirs
mixed_merging: resolve --renumber=theirs
columned: conflicts
columned: conflicts --flat
columned: conflicts -o json
columned: conflicts --flat -o json
columned: conflicts -o geojson
worded: conflicts
worded: conflicts -s
worded: conflicts -s -o json
worded: conflicts -o json
worded: conflicts --flat -o json
files: diff HEAD^
files: diff HEAD^ -o json
untracked: add-dataset other -m x
untracked: add-dataset other
clean: data rm table
clean: mv table x
bare: status
edited: diff 'x*'
edited: show 'x*' -o quiet
edited: diff table nosuch
clean: diff -o geojson
edited: commit table nosuch:1 -m x
edited: restore -s [EMPTY] table
clean: meta set table title=A title=B
bare: diff
bare: commit -m x
bare: restore
bare: switch side
bare: merge easy -m Both
bare: create-workingcopy
gone: diff
gone: commit -m x
gone: restore
gone: checkout side
clean: create-workingcopy --parts tabular
clean: create-workingcopy --parts file-system
clean: create-workingcopy --parts nosuch
clean: create-workingcopy --parts auto --delete-existing
clean: create-workingcopy --no-delete-existing
clean: create-workingcopy --delete-existing other.txt
clean: create-workingcopy --delete-existing nosuch
clean: create-workingcopy --delete-existing patch.json
clean: create-workingcopy --delete-existing postgresql://nosuch
empty: create-workingcopy --parts tabular
clean: create-patch HEAD --diff-format none
clean: create-patch HEAD --diff-format full
clean: create-patch HEAD --diff-format no-data-changes
clean: create-patch HEAD --diff-format nosuch
clean: create-patch HEAD --crs nosuch
clean: create-patch HEAD --output .
clean: apply minimal.json
clean: apply minimal.json --no-commit
clean: apply header.json
clean: apply header.json --allow-empty
clean: apply easy.json --commit
clean: apply easy.json --ref HEAD
clean: apply easy.json --ref side --no-commit
edited: diff -o geojson:compact
edited: diff -o geojson:pretty
edited: diff -o geojson:nosuch
edited: diff -o json:
edited: diff -o json-lines:compact
edited: diff -o json-lines:nosuch
edited: diff -o quiet:x
edited: diff -o html:x
edited: diff --json-style compact -o geojson
edited: diff --json-style compact -o json:pretty
edited: diff --output . -o json
edited: diff --output . -o text
edited: diff --output . -o json-lines
merging: conflicts --output .
merging: conflicts --output . -o json
merging: conflicts -o geojson:compact
merging: conflicts -o quiet:x
clean: import nosuch.xyz
clean: import nosuch
clean: import NOSUCH:x
clean: import GPKG:
clean: table-import --list --all-tables copy.gpkg
clean: merge v1 --ff-only
clean: merge v1 --ff-only -o json
clean: merge --continue easy
clean: merge --abort easy
clean: merge --continue --abort
clean: checkout --spatial-filter nonsense
clean: checkout --spatial-filter 'nosuch;POLYGON((0 0,1 0,1 1,0 0))'
clean: checkout --spatial-filter 'EPSG:4326;POLYGON((0 0,1 1,0 1,1 0,0 0))'
clean: clone . ../edited
clean: clone --quiet . ../copied
clean: push --no-verify origin main
clean: mv table other
edited: data rm table
merging: data rm table
bare: add-dataset other
empty: add-dataset other
edited: diff --json-style compact -o json
merging: conflicts --json-style compact -o json
clean: show [EMPTY]
clean: create-patch [EMPTY]
clean: reset [EMPTY]
clean: checkout [EMPTY]
clean: diff -o json-lines
edited: diff HEAD^ -o json-lines
clean: checkout --spatial-filter 'EPSG:4326;POINT(0 0)'
clean: checkout --spatial-filter 'EPSG:99999;POLYGON((0 0,1 0,1 1,0 0))'
clean: export table out.nosuch
columns: status
columns: diff -o json
columns: commit -m x
clean: diff table HEAD
clean: diff nosuch:1 HEAD
clean: diff nosuch:1
clean: diff nosuch:1 nosuch:2
clean: diff nosuch:1 nosuch
clean: diff HEAD^...HEAD nosuch:meta:title
clean: diff HEAD^...HEAD HEAD
clean: diff HEAD^...HEAD 'ta?le*'
clean: diff HEAD^...HEAD 't*:feature:1'
clean: diff :1
clean: diff --only-feature-count nosuch
clean: diff -- HEAD
clean: show table HEAD
clean: show HEAD^ HEAD
clean: show nosuch:1 -o quiet
clean: log 't*' -o text:%s
clean: log 't*:meta' -o text:%s
clean: log 't*:1'
clean: log nosuch:1
clean: log HEAD nosuch:1
clean: log -- nosuch:1
clean: log -- 'nosuch*'
clean: log table HEAD
clean: log table:meta:nosuch
files: diff HEAD^...HEAD 'a*' -o json
altered: restore table:meta
altered: restore table:meta:title
altered: restore table:feature:1
altered: restore -s HEAD^ table
altered: restore -s HEAD^
altered: commit table:feature:1 -m x
altered: diff table:feature:1 -o quiet
described: diff table:feature
described: diff table:1
described: commit table:feature:2 -m x
described: restore -s HEAD^ table:feature:1
edited: restore -s HEAD^ table:meta
edited: restore -s HEAD^ table:feature
merging: meta get
merging: meta get table title
merging: fsck
merging: reset HEAD
clean: mv table other -m x -o json
clean: checkout main HEAD
clean: commit-files -m x a=@nosuch
clean: commit-files -m x a=@nosuch b/c-d.txt=@gone
clean: commit-files -m x b/c-d.txt=@nosuch
clean: meta set table title=@nosuch
clean: meta set table sch.ema-x=@nosuch -m x
clean: meta set table title=@.
clean: commit-files -m x a=@.
edited: commit-files -m x a=b
clean: merge side --fail-on-conflict
clean: merge side --fail-on-conflict -o json
clean: branch 'bad name'
clean: branch -d
clean: tag 'bad name'
clean: tag a b c
clean: remote add 'bad name' x
clean: remote show nosuch
clean: import ../edited/copy.gpkg nosuch --all-tables
clean: spatial-filter index --dry-run
clean: init new -b 'bad name'
clean: init new -m hello
clean: init new --workingcopy-location bad.txt
clean: init new --workingcopy-location mssql://nosuch
clean: init new --workingcopy-location mysql://nosuch/db/x
clean: init new --bare --workingcopy-location a.gpkg
clean: init new --spatial-filter nosuch
clean: init new --spatial-filter @nosuch
clean: init new --spatial-filter 'EPSG:4326;POINT(0 0)'
clean: init new --spatial-filter 'EPSG:99999;POLYGON((0 0,1 0,1 1,0 0))'
clean: init copy.gpkg
clean: clone . copy.gpkg
clean: clone --quiet . ../copied --workingcopy-location ../other.gpkg
clean: clone --quiet . ../copied --bare --workingcopy-location other.gpkg
clean: clone --quiet . ../copied --no-checkout --workingcopy-location other.gpkg
clean: clone --quiet . ../copied --workingcopy-location other.txt
clean: clone --quiet . ../copied --depth 0
clean: create-workingcopy --delete-existing ../other.gpkg
clean: create-workingcopy --delete-existing mssql://nosuch/db/schema/table
clean: create-workingcopy --delete-existing mysql://nosuch/db/x
clean: import mssql://nosuch
clean: import mysql://nosuch/db/table/x
clean: import postgresql://nosuch
clean: fetch --dry-run
clean: fetch -v nosuch
clean: lfs+ gc
clean: lfs+ gc --dry-run
clean: lfs+ fetch side
clean: lfs+ fetch nosuch
clean: lfs+ ls-files
clean: lfs+ pre-push origin nosuch --dry-run
clean: lfs+ nosuch
clean: apply easy.json --ref main
clean: apply easy.json --ref main --amend
clean: apply easy.json --ref easy --amend
clean: commit-files -m x a.txt=hello --ref refs/heads/easy --amend
clean: gc --auto
clean: gc --prune=now
clean: gc --aggressive --quiet
clean: switch refs/heads/main
clean: switch refs/heads/side
remote: switch origin/easy
remote: gc --auto
clean: checkout --dataset=nosuch
without: checkout --dataset=nosuch
clean: apply wordless.json
clean: apply wordless.json --no-commit
merging: export table x.gpkg
clean: init new --import nosuch.gpkg
clean: init new --import GPKG:nosuch.gpkg
files: log 'a*' -o text:%s
files: log '*' -o text:%s
files: log -o text:%s -- '*.txt'
untracked: restore -s HEAD^ table:feature:1
grown: restore -s v1
grown: restore -s v1 other
grown: restore -s v1 other:feature:1
grown: restore -s v1 table
clean: create-workingcopy x.txt
clean: create-workingcopy foo://bar
clean: create-workingcopy mssql://nosuch
clean: upgrade nosuch ../new
clean: upgrade . ../new
clean: upgrade . ../new --in-place
clean: upgrade
clean: fsck
clean: fsck --reset-dataset table
edited: fsck --reset-dataset table
bare: fsck
gone: fsck
grown: fsck
files: fsck
hidden: commit -m x
hidden: diff -o quiet
hidden: diff points -o text
hidden: commit -m x --allow-spatial-filter-conflicts
clean: fsck HEAD
clean: remote get-url --all origin
clean: remote set-head origin main
clean: lfs+ gc extra
clean: lfs+ gc --nosuch
clean: lfs+ fetch --nosuch
clean: lfs+ ls-files a b c
clean: mv table other -m One -m Two
behind: mv table other -m One -m Two
clean: init new --checkout
clean: init new --import ''
clean: data ls ''
clean: data ls '' -o json
clean: meta get '' title
clean: meta get table --ref '' title
merging: pull
merging: add-dataset x
merging: import copy.gpkg table
merging: table-import copy.gpkg table
merging: table-export table x.gpkg
clean: add-dataset x y
clean: import ../edited/copy.gpkg ../edited/copy.gpkg
clean: table-import copy.gpkg table:x --primary-key ''
clean: upgrade .
clean: upgrade . --in-place
clean: spatial-filter index '' --dry-run
remote: push
remote: push origin main
remote: push origin main:new
remote: push -u origin main:new
remote: push -u origin main
remote: push --dry-run origin main:new
remote: push --tags
remote: push -d origin side
remote: push origin :refs/tags/v1
remote: push --force origin easy:side
remote: fetch
remote: fetch origin main
remote: fetch origin main:new
remote: fetch -v
mixed_hide: diff t1...t2 -o json
mixed_hide: diff t1...t2 places -o json:compact
mixed_hide: diff t1...t2 places -o json:extracompact
mixed_hide: diff t1...t2 places --exit-code
mixed_hide: diff t1...t2 places -o quiet
mixed_hide: diff t1...t2 places --only-feature-count exact
mixed_hide: diff t1...t2 places --diff-format no-data-changes -o json
mixed_hide: diff t1...t2 -o geojson
mixed_hide: show t2 -o json
mixed_hide: create-patch t2
mixed_hide: create-patch t2 --diff-format none
mixed_hide: log -o json --with-change-counts -n 1 t2
mixed_filtered: diff t1...t2 places -o json:compact
mixed_filtered: create-patch t2
mixed: show main~1
mixed: show main~1 -o json
mixed: show main~1 -o json-lines
mixed: show main~1 --diff-files -o json
mixed: show main~1 --delta-filter=+ -o json
mixed: show main~1 --diff-format no-data-changes
mixed: show main~1 --diff-format no-data-changes -o json-lines
mixed: show main~1 -o geojson
mixed: diff --output '' t1...t2
mixed: diff -o quiet --output x t1...t2
mixed: diff -o feature-count t1...t2
mixed: show -o feature-count t2
mixed: diff -o geojson --diff-format none t1...t2
mixed: diff -o quiet --diff-format no-data-changes t1...t2
mixed: diff -o geojson:compact --delta-filter=++ t1...t2 places
mixed: diff --delta-filter=' +' t1...t2
mixed: diff --delta-filter='+, ++' t1...t2
mixed: diff --crs 3857 t1...t2 places
mixed: diff --crs ' EPSG:3857' t1...t2 places
mixed: diff --crs EPSG: t1...t2 places
mixed: diff --crs EPSG:abc t1...t2 places
mixed: diff --crs '{"a":1}' t1...t2 places
mixed: diff --crs WGS84 t1...t2 places
mixed: show t2 --crs 3857 -o json
mixed: create-patch t2 --crs 3857
mixed: diff --only-feature-count exact t1...t2 words
mixed: diff --only-feature-count exact t1...t2 --output x
mixed: diff --only-feature-count exact t1...t2 -o quiet
mixed: diff --only-feature-count exact t1...t2 -o feature-count
mixed: diff --only-feature-count exact t1...t2 --diff-format none
mixed: diff --only-feature-count
mixed: diff --add-feature-count-estimate exact t1...t2 -o json-lines
mixed_edited: diff --only-feature-count veryfast t1
mixed_edited: diff --only-feature-count good t2 places
mixed_edited: diff --only-feature-count exact t2 places
mixed: diff main...other places
mixed: diff other...main places
mixed: log --decorate
mixed: log --decorate -o json
mixed: log --decorate=short --decorate-refs=refs/tags/* -o text:%d
mixed: log --decorate=short --decorate-refs='refs/tags/*'
mixed: log --decorate=short --decorate-refs='*1'
mixed: log --decorate=short --decorate-refs=main -n 1
mixed: log --decorate=short --decorate-refs=refs/heads/ -n 1
mixed: log --decorate=short --decorate-refs=HEAD -n 1
mixed: log --decorate=full --decorate-refs=refs/tags/t1 --decorate-refs=refs/heads/main
mixed: log --decorate-refs=refs/tags/t1 -o json -n 1
mixed: log --author Bob --author Carol -o text:%an
mixed: log --author='Bob\\|Carol' -o text:%an
mixed: log --author='Bob|Carol' -o text:%an
mixed: log --author='Bo\\+b' -o text:%an
mixed: log --author='Bo+b' -o text:%an
mixed: log --author='*Bob' -o text:%an
mixed: log --author='(' -o text:%an
mixed: log --author='['
mixed: log --author='\\('
mixed: log --committer='['
mixed: log --grep='['
mixed: log --grep=Edits --grep=Files -o text:%s
mixed: log -n -1 -o text:%s
mixed: log --skip -1 -o text:%s
mixed: log --skip=-5 -n 2 -o text:%s
mixed: log -o json-lines:nosuch
mixed: log -o json:nosuch
mixed: log nosuch..main
mixed: log nosuch -- places
mixed: log --output '' -n 1
mixed: create-patch t1 t2
mixed: create-patch t2 nosuch
mixed_merging: status --list-untracked-tables
mixed_merging: conflicts --flat
mixed_merging: conflicts --flat -s
mixed_merging: conflicts --flat -ss
mixed_merging: conflicts --flat -s -o json
mixed_merging: conflicts --flat words -o json
mixed_merging: conflicts --flat places -s
mixed_merging: conflicts --flat places:meta
mixed_merging: conflicts --flat -o geojson places
mixed_merging: conflicts --flat -o geojson
mixed_merging: conflicts -o geojson:compact places
mixed_merging: conflicts -o quiet --output x
mixed_merging: conflicts --json-style nosuch -o json
mixed_merging: conflicts --output '' words
mixed_merging: conflicts --crs 3857
resolved: conflicts -o geojson
clean: commit -m ''
clean: commit -m @nosuch
edited: commit -m ''
edited: commit -m @
edited: commit
edited: commit -m x -m ''
edited: commit -m x table:feature
merging: resolve table --with=ours
merging: resolve table:feature --with=ours
merging: resolve table:1 --with=ours
merging: resolve table: --with=ours
merging: resolve nosuch --with=ours
merging: resolve table:feature:1 table:feature:2 --with=ours
merging: resolve table:feature:1 --with=ours --renumber=ours
merging: resolve table:feature:1 --with=ancestor
mixed_merging: resolve words --with=ours
mixed_merging: resolve places:feature:9 --with=ancestor
mixed_merging: resolve places:feature:1 --with=delete
mixed_merging: resolve places:feature:77 --with=ours
mixed_merging: resolve words:feature:a --with=ours
mixed_merging: resolve places:feature:1 --with=theirs
mixed_merging: resolve places:meta:title --with=ancestor
resolved: resolve table --with=ours
resolved: resolve table:feature --with=ours
resolved: resolve table:feature:9 --with=ours
merging: resolve table:feature:1 --with=workingcopy
merging: resolve table:feature:1 --with=delete
behind: merge main --ff-only -m x
remote: branch -a -o json
clean: branch -x
clean: tag -m '' t
clean: tag -d
bare: checkout
bare: fsck --reset-dataset table
gone: fsck --reset-dataset table
remote: switch -C easy origin/easy
clean: meta set table title=X -m ''
clean: meta set table =x -m x
clean: data rm table/ -m x
clean: data rm points/
behind: data rm table -m x
clean: clone ''
clean: clone . ''
clean: upgrade '' ''
clean: upgrade . ''
clean: upgrade . ../edited
clean: upgrade a b c
clean: upgrade --in-place
clean: upgrade ../table.csv ../new
clean: lfs ls-files
clean: lfs nosuch
clean: helper --timeout
clean: helper --timeout x
clean: ext-run
clean: ext-run nosuch
clean: -C ../table.csv status
clean: -C nosuch status
clean: -C copy.gpkg branch
edited: fsck
columns: fsck
altered: fsck
mixed_edited: fsck
clean: data ls HEAD^{tree}
clean: data ls HEAD^{tree} -o json
clean: data ls HEAD:nosuch
clean: init new --num-workers 2
clean: init new --max-delta-depth 5
clean: init new --max-delta-depth x
mixed: meta get places crs/foo.wkt
mixed: meta get places tags.json
mixed: meta get places title nosuch crs/x.wkt -o json
mixed: meta get words nosuch crs/x.wkt
mixed: meta get '' crs/x.wkt
clean: mv '' x
clean: mv table/ x
clean: mv x/ y
clean: mv /table x
remote: push origin nosuch
remote: push -d origin nosuch
remote: push origin v1:main
remote: push origin v1:main v1:new
remote: push -q origin main:new
remote: push -v --dry-run origin main
remote: fetch --all origin
remote: push -v origin nosuch
untracked: import copy.gpkg points -o json
untracked: import --list copy.gpkg -o json
clean: clone . ../copied
clean: clone . ../copied --bare
clean: clone . ../copied -b nosuch
clean: clone ../nosuch ../copied
clean: clone ../empty ../copied
clean: clone --quiet ../empty ../copied
clean: clone . ../copied --depth 1
clean: clone . ../copied --no-checkout
clean: data rm '' -m x
clean: commit-files -m x =b
clean: commit-files -m x b
untracked: add-dataset ''
clean: meta set table 'tags.json=x' -m x
clean: table-import ../edited/copy.gpkg table:new --table-info '{'
clean: import copy.gpkg --list
clean: import copy.gpkg --list -o json
described: import copy.gpkg --list
untracked: import copy.gpkg nosuch:new
untracked: import copy.gpkg other:table
untracked: import copy.gpkg table:table
untracked: import copy.gpkg other:new table
untracked: import copy.gpkg other:new --primary-key nosuch
edited: restore -s HEAD^ table:feature:77
clean: restore -s v1 table:feature:77 table:feature:1
edited: create-workingcopy --delete-existing
edited: create-workingcopy --delete-existing other.gpkg
edited: create-workingcopy --delete-existing --discard-changes ../clean/copy.gpkg
clean: create-workingcopy --no-delete-existing ../table.csv
clean: create-workingcopy ''
clean: create-workingcopy '' --delete-existing
grown: diff HEAD^...HEAD^ other
behind: diff main table
grown_behind: diff main other
grown_behind: diff main...main other
grown_behind: show main other
grown_behind: diff HEAD...main -- other
grown_behind: log main other
columns: diff HEAD^{tree}
edited: diff v1^{tree} table
edited: diff v1^{tree} table:feature:1 -o json
edited: diff v1^{tree} -o json-lines
edited: diff nosuch^{tree}
files: diff v1^{tree}
clean: restore -s HEAD^ table:nosuch
clean: restore -s HEAD^ table:feature:nosuch
empty: commit-files -m x a=b
clean: meta set table crs/x.wkt=nosuch
mixed: meta set places crs/EPSG:9999.wkt=nosuch
clean: meta set table schema.json=
clean: meta set table schema.json={}
clean: meta set table foo=
remote: push --force-with-lease=x:y
remote: push --force-with-lease=main
remote: push --force-with-lease=main:v1 origin main
remote: push ''
remote: push -v origin main :easy
remote: push -v --porcelain origin main
remote: push -q origin main
remote: push origin HEAD^:main -f
clean: diff HEAD^...HEAD table:999
mixed: diff ..
mixed: log ...
mixed: show ..
mixed: diff t1..
clean: import ../edited/copy.gpkg table:a/../b
clean: import ../edited/copy.gpkg table:a./b
mixed_merging: conflicts places:feature:1
mixed_merging: conflicts places:feature:99
mixed_merging: conflicts -s places:feature:1
mixed_merging: conflicts -o geojson places:feature:1
mixed_merging: conflicts places:1 -o json
mixed: merge other --into nosuch -m x
mixed: merge other --into HEAD -m x
clean: import ../edited/copy.gpkg table:a table:a
"""


def _write(repo: Path, statement: str) -> None:
    with closing(sqlite3.connect(repo / "copy.gpkg")) as file, file:
        file.execute(statement)


def _make_mixed(folder: Path) -> None:
    """Make the repositories that have tables of two kinds, files, several authors and filters."""
    mixed, seconds = folder / "mixed", count(1_700_000_000, 100)

    def run(by: str, *words: str | Path) -> None:
        who = {"NAME": by, "EMAIL": f"{by}@x", "DATE": f"{next(seconds)} +0000"}
        kinds = [f"GIT_{kind}_" for kind in ("AUTHOR", "COMMITTER")]
        known = {kind + name: value for name, value in who.items() for kind in kinds}
        with mock.patch.dict(os.environ, known):
            succeed(invoke(["-C", mixed, *words]))

    (folder / "places.csv").write_text("id,name,x,y\n1,one,1,1\n2,two,5,5\n3,three,1.5,1\n")
    (folder / "words.csv").write_text("word,meaning\nb,bee\na,ay\nB,BEE\n")
    succeed(invoke(["init", "--kart", mixed]))
    geo = ["--primary-key", "id", "--csv-lon", "x", "--csv-lat", "y", "--crs", "EPSG:4326"]
    run("A", "import", folder / "places.csv", *geo)
    run("A", "tag", "t1")
    run("Bob", "import", folder / "words.csv", "--primary-key", "word", "-m", "Words")
    run("Bob", "create-workingcopy", "copy.gpkg")
    for event in ("insert", "delete", *(f"update{number}" for number in range(1, 8))):
        _write(mixed, f"DROP TRIGGER IF EXISTS rtree_places_geom_{event}")
    _write(mixed, "UPDATE places SET name = 'TWO' WHERE id = 2")
    _write(mixed, "DELETE FROM places WHERE id = 3")
    _write(mixed, "INSERT INTO places (id, name, geom) SELECT 7, 'VII', geom FROM places LIMIT 1")
    run("Carol", "commit", "-m", "Edits")
    run("Carol", "tag", "t2")
    for branch, name in (("other", "uno"), ("main", "eins")):
        run("A", "switch", *(["-c", "other"] if branch == "other" else ["main"]))
        _write(mixed, f"UPDATE places SET name = '{name}' WHERE id = 1")
        _write(mixed, f"INSERT INTO places (id, name) VALUES (9, '{name}')")
        _write(mixed, f"UPDATE words SET meaning = '{name}' WHERE word = 'a'")
        title = f"identifier = '{name}' WHERE data_type = 'features'"
        _write(mixed, f"UPDATE gpkg_contents SET {title}")
        run("Carol", "commit", "-m", f"Edits of {branch}")
    shutil.copytree(mixed, folder / "mixed_merging", symlinks=True)
    succeed(invoke(["-C", folder / "mixed_merging", "merge", "other"]))
    files = "\N{LATIN SMALL LETTER E WITH ACUTE}.txt=hello", "a.txt=hi"
    run("Dave", "commit-files", "-m", "Files", *files)
    _write(mixed, "ALTER TABLE places RENAME COLUMN name TO label")
    _write(mixed, "ALTER TABLE places ADD COLUMN more TEXT")
    _write(mixed, "UPDATE places SET more = 'x' WHERE id = 2")
    run("A", "commit", "-m", "Columns")
    shutil.copytree(mixed, folder / "mixed_edited", symlinks=True)
    _write(folder / "mixed_edited", "UPDATE places SET label = 'zwei' WHERE id = 2")
    _write(folder / "mixed_edited", "DELETE FROM words WHERE word = 'b'")
    for name, west in (("filtered", 0), ("hide", 100)):
        shutil.copytree(mixed, folder / f"mixed_{name}", symlinks=True)
        corners = [(west, 0), (west + 2, 0), (west + 2, 2), (west, 2), (west, 0)]
        area = f"EPSG:4326;POLYGON(({','.join(f'{x} {y}' for x, y in corners)}))"
        succeed(invoke(["-C", folder / f"mixed_{name}", "checkout", "--spatial-filter", area]))


def _make_others(folder: Path) -> None:
    """Make the repositories whose tables differ in more than rows."""
    clean, worded = folder / "clean", folder / "worded"
    for name in ("altered", "dropped", "described", "files", "untracked", "columns"):
        shutil.copytree(clean, folder / name, symlinks=True)
    _write(folder / "dropped", 'DROP TABLE "table"')
    _write(folder / "dropped", "DELETE FROM gpkg_contents")
    _write(folder / "altered", 'ALTER TABLE "table" ADD COLUMN more TEXT')
    _write(folder / "described", "UPDATE gpkg_contents SET identifier = 'T', description = 'D'")
    _write(folder / "columns", 'UPDATE "table" SET name = name WHERE id = 2')
    _write(folder / "columns", 'ALTER TABLE "table" RENAME COLUMN name TO label')
    _write(folder / "untracked", "CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT)")
    _write(folder / "untracked", "INSERT INTO other VALUES (1, 'a')")
    succeed(invoke(["-C", folder / "files", "commit-files", "-m", "x", "a.txt=hello"]))
    _make_columned(clean, folder / "columned")
    shutil.copytree(clean, folder / "remote", symlinks=True)
    run_git("remote", "set-url", "origin", str(clean), cwd=folder / "remote")
    succeed(invoke(["-C", folder / "remote", "fetch"]))
    shutil.copytree(folder / "untracked", folder / "grown", symlinks=True)
    succeed(invoke(["-C", folder / "grown", "add-dataset", "other", "-m", "Other"]))
    shutil.copytree(folder / "grown", folder / "grown_behind", symlinks=True)
    succeed(invoke(["-C", folder / "grown_behind", "checkout", "v1"]))
    hidden = folder / "hidden"
    (folder / "points.csv").write_text("id,x,y\n1,1,1\n2,5,5\n")
    succeed(invoke(["init", "--kart", hidden]))
    how = ["--primary-key", "id", "--csv-lon", "x", "--csv-lat", "y", "--crs", "EPSG:4326"]
    succeed(invoke(["-C", hidden, "import", folder / "points.csv", *how]))
    run_git("config", "kart.workingcopy.location", "copy.gpkg", cwd=hidden)
    area = "EPSG:4326;POLYGON((0 0,2 0,2 2,0 2,0 0))"
    succeed(invoke(["-C", hidden, "create-workingcopy", "--spatial-filter", area]))
    _write(hidden, "DROP TRIGGER rtree_points_geom_insert")
    _write(hidden, "INSERT INTO points (id, x) VALUES (2, 7)")
    words = ["ten", "two", "one", "six"]
    succeed(invoke(["init", "--kart", worded]))
    for branch in ("main", "side", "ours"):
        rows = "".join(f"{word},{branch}\n" for word in words)
        (folder / "worded.csv").write_text(f"word,branch\n{rows}")
        if branch == "main":
            how = ["--primary-key", "word"]
        else:
            succeed(invoke(["-C", worded, "switch", "-c", branch, "main"]))
            how = ["--replace"]
        succeed(invoke(["-C", worded, "import", folder / "worded.csv", *how]))
    succeed(invoke(["-C", worded, "merge", "side"]))


def _make_columned(clean: Path, columned: Path) -> None:
    """Make a repository in which a merge waits whose sides have other columns."""
    shutil.copytree(clean, columned, symlinks=True)
    succeed(invoke(["-C", columned, "switch", "-c", "columns", "v1"]))
    _write(columned, 'ALTER TABLE "table" RENAME COLUMN name TO label')
    _write(columned, 'ALTER TABLE "table" ADD COLUMN more TEXT')
    _write(columned, "UPDATE \"table\" SET label = 'un', more = 'x' WHERE id = 1")
    succeed(invoke(["-C", columned, "commit", "-m", "Columns"]))
    succeed(invoke(["-C", columned, "switch", "main"]))
    succeed(invoke(["-C", columned, "merge", "columns"]))


def _make(folder: Path) -> None:
    """Make a repository in each of the states."""
    folder.mkdir()
    clean = folder / "clean"

    def run(*words: str | Path) -> str:
        return succeed(invoke(["-C", clean, *words])).stdout

    def change(name: str, number: int, message: str) -> None:
        _write(clean, f"UPDATE \"table\" SET name = '{name}' WHERE id = {number}")
        run("commit", "-m", message)

    (folder / "table.csv").write_text(ROWS)
    succeed(invoke(["init", "--kart", clean]))
    run("import", folder / "table.csv", "--primary-key", "id")
    run("create-workingcopy", "copy.gpkg")
    run("tag", "v1")
    for branch, number in (("side", 1), ("easy", 3)):
        run("switch", "-c", branch, "v1")
        change(branch, number, branch)
    run("switch", "main")
    change("uno", 1, "Uno")
    (clean / "patch.json").write_text(run("create-patch", "side"))
    (clean / "easy.json").write_text(run("create-patch", "easy"))
    (clean / "minimal.json").write_text(
        run("create-patch", "easy", "--diff-format", "no-data-changes")
    )
    (clean / "header.json").write_text(run("create-patch", "easy", "--diff-format", "none"))
    wordless = (clean / "easy.json").read_text().replace('"easy",', '"",', 1)
    (clean / "wordless.json").write_text(wordless)
    (clean / "bad.json").write_text("{nope")
    (clean / "none.json").write_text('{"kart.patch/v1": {}}')
    run_git("remote", "add", "origin", "/no/such/place", cwd=clean)
    for name in ("edited", "merging", "gone", "several", "behind"):
        shutil.copytree(clean, folder / name, symlinks=True)
    _write(folder / "edited", "UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    _write(folder / "several", "UPDATE \"table\" SET name = 'drei' || char(10) WHERE id = 3")
    _write(folder / "several", "INSERT INTO \"table\" VALUES (10, 'ten')")
    _write(folder / "several", 'UPDATE "table" SET id = 20 WHERE id = 2')
    _write(folder / "several", 'DELETE FROM "table" WHERE id = 1')
    succeed(invoke(["-C", folder / "behind", "checkout", "v1"]))
    succeed(invoke(["init", "--kart", folder / "empty"]))
    succeed(invoke(["-C", folder / "merging", "merge", "side"]))
    shutil.copytree(folder / "merging", folder / "resolved", symlinks=True)
    succeed(invoke(["-C", folder / "resolved", "resolve", "table:feature:1", "--with=ours"]))
    (folder / "gone" / "copy.gpkg").unlink()
    shutil.copytree(folder / "gone", folder / "without", symlinks=True)
    run_git("config", "dataset.table.checkout", "false", cwd=folder / "without")
    succeed(invoke(["clone", "--kart", "--bare", clean, folder / "bare"]))
    for branch in ("side", "easy"):
        run_git("branch", "-f", branch, f"refs/heads/{branch}", cwd=folder / "bare")
    _make_others(folder)
    _make_mixed(folder)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    again(("karts-words",), _make, tmp_path / "made")
    there = tmp_path / "made" / "remote"  # whose remote is to be beside it, not where it was made
    run_git("remote", "set-url", "origin", str(there.with_name("clean")), cwd=there)
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    monkeypatch.setenv("EDITOR", "true")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_DATE", "1700000000 +0000")
    return tmp_path / "made"


def _told(place: Path, line: str, code: int, out: str, err: str) -> str:
    """Return what a command said as it stands in the file."""
    aside = re.compile(
        r"Usage: |Try '|Writing features|.*UserWarning|Total \d|"
        r"Warning 1: |Copy-on-write |Currently Kart |For more info, |  +(parser|pieces|super\()"
    )
    lines = [f"$ {line}", f"exit {code}"]
    for stream, text in (("out", out), ("err", err)):
        text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace(str(place), "PLACE")
        text = re.sub(r"\b[0-9a-f]{7}([0-9a-f]{33})?\b", "#", text)
        text = re.sub(r'("authorTime": )"[^"]*"', r'\1"TIME"', text)
        shown = [each for each in text.rstrip().splitlines() if not aside.match(each)]
        if stream == "err":
            while shown and not shown[0].strip():
                del shown[0]
        lines += [f"{stream}| {each}".rstrip() for each in shown]
    return "\n".join(lines) + "\n"


def _expected() -> dict[str, str]:
    parts = WORDS.read_text().split("\n\n") if WORDS.exists() else []
    return {part.partition("\n")[0].removeprefix("$ "): part.strip() + "\n" for part in parts}


@pytest.mark.parametrize("line", LINES.splitlines())
def test_it_says_what_kart_said(place: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state, _, words = line.partition(": ")
    monkeypatch.chdir(place / state)
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart", *shlex.split(words)])
    found = invoke(shlex.split(words))
    assert _told(place, line, found.exit_code, found.stdout, found.stderr) == _expected()[line]


@pytest.mark.kart
@pytest.mark.skipif(not KART, reason="HAVASU_VC_KART names no command that runs Kart")
@pytest.mark.parametrize("line", LINES.splitlines())
def test_kart_says_it_still(place: Path, line: str) -> None:
    assert KART is not None
    state, _, words = line.partition(": ")
    found = subprocess.run(
        [KART, *shlex.split(words)],
        cwd=place / state,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    expected = _expected()
    said = _told(place, line, found.returncode, found.stdout, found.stderr)
    if os.environ.get("HAVASU_VC_KART_WORDS") == "new":
        expected[line] = said
        WORDS.write_text(
            "\n".join(expected[each] for each in LINES.splitlines() if each in expected)
        )
    assert said == expected[line]
