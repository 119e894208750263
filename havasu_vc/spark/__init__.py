"""The door for users of Spark: read datasets as data frames, query checkouts with SQL."""

from havasu_vc.spark.changing import changes, history
from havasu_vc.spark.reading import read, register
from havasu_vc.spark.session import session
from havasu_vc.spark.writing import sink, write

__all__ = ["changes", "history", "read", "register", "session", "sink", "write"]
