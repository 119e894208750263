"""`Repo`, what a program holds: every use case of a repository as a method."""

from havasu_vc.library.repository import Repo

__all__ = ["Repo"]
