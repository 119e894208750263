"""The repository on a page of this machine, for a person: `havasu-vc open`.

```
guard.py         who may ask: a token that is good once, a cookie, the page's own address
application.py   addresses and what answers them
opening.py       the server
queries.py       what was asked, checked
overview.py      branches, what is edited, what waits, the datasets
history.py       commits and what each changed; a row's past
edits.py         what is edited, and set aside
conflicts.py     what a merge could not decide
actions.py       what the page does: commit, switch, merge, …
rows.py          a dataset, its rows by page, where they lie
commits.py       a commit as JSON
review.py        a commit, or what differs between two, as the page of a review
assets/          the page: plain modules, a style
```

Nothing is kept between requests but what git's ids name for good: two tabs and a terminal at
once see the same.
"""
