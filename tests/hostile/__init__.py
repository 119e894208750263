"""Things that were made to do harm, and what holds of every command on each of them.

`items` says what an item is; `trees`, `documents`, `files`, `edited`, `clones` and `lying`
make them. `scene` is where they stand, `commands` what is run on them, `rule` what must hold.
"""
