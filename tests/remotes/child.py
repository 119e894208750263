"""What a child process does with a remote before it is killed.

    python child.py REPO WORK [FUNCTION CALL]

WORK is a method of Repo with its arguments, by colons. With FUNCTION, the process exits at
once, without any cleaning up, when that function is called for the CALLth time.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from havasu_vc.errors import HavasuError
from havasu_vc.repo import Repo, Settings
from havasu_vc.repo.cloning import CloneRequest
from tests.repo.child import die_at


def work(folder: str, what: str) -> None:
    settings = Settings(engine="local")
    name, *arguments = what.split("|")
    if name == "clone":
        Repo.clone(CloneRequest(arguments[0], Path(folder)), settings=settings)
        return
    repo = Repo.open(folder, settings=settings)
    match name:
        case "pull":
            repo.fetch()
            repo.merge(repo.upstream())
        case "drop":
            repo.drop_data(everything=True)
        case "prune":
            repo.prune_remote(grace_days=0, delete=True)
        case _:
            getattr(repo, name)(*arguments)


def main() -> None:
    folder, what, *rest = sys.argv[1:]
    if rest:
        die_at(rest[0], int(rest[1]))
    try:
        work(folder, what)
    except HavasuError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
