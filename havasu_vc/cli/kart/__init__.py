"""All that is told and taken otherwise where this program is called `kart`, as Kart has it.

`as_kart` beside it tells whether it is; elsewhere next to nothing of this is loaded.
"""
