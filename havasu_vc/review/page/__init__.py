"""The page of a review: one HTML file that holds all that it shows and asks nobody for more.

```
collecting.py   what is kept of each changed row while the changes go by, and of rows beside it
cells.py        old and new values, one column at a time
texts.py        these as texts, or as what they spell; points.py is part of it
places.py       shapes for the map
packing.py      numbers and text as few bytes
document.py     the file: markup, style, script, data
assets/         these as plain files, and the land and borders of the world
```
"""

from havasu_vc.review.page.collecting import Page, PageLimits, Picture, Pictures
from havasu_vc.review.page.document import write_page

__all__ = ["Page", "PageLimits", "Picture", "Pictures", "write_page"]
