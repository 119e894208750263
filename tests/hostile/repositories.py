"""Repositories: paths, refs, tags, messages, and what stands where datasets should."""

from __future__ import annotations

from collections.abc import Callable

from pygit2.enums import ObjectType

from tests.hostile.items import Item
from tests.hostile.scene import DATASET, Scene
from tests.hostile.trees import FILE, FOLDER, LINK, MODULE, PROGRAM, Change
from tests.support.git import run_git

__all__ = ["ITEMS"]

_PATHS = "ls good status diff fsck checkout fetch"


def _dataset_called(name: bytes) -> Callable[[Scene], None]:
    """Put a copy of the dataset where its folder has this name."""

    def make(scene: Scene) -> None:
        tree = run_git("rev-parse", f"main:{DATASET}", cwd=scene.repo).encode()
        scene.commit({name + b"/.havasu-dataset": (FOLDER, tree)})

    return make


_NAMES = {
    "a line feed": b"a\nb",
    "a colon": b"a:b",
    "control characters": b"a\x1b[31m\x07b",
    "bytes that are no text": b"a\xff\xfeb",
    "text that turns around": "a\u202eb".encode(),
    "a reserved name of Windows": b"CON",
    "a reserved name with a suffix": b"nul.txt",
    "a dot at its end": b"points.",
    "git's folder in other letters": b"a/.GIT",
    "git's folder as HFS sees it": "a/.g\u200cit".encode(),
    "git's folder as NTFS sees it": b"git~1",
    "a backslash": b"a\\..\\..\\b",
    "an option": b"--upload-pack=x",
    "a pattern": b"*",
    "braces": b"{0.__class__}",
    "quotes and a dollar": b"a'\"$(touch x)`touch x`",
    "4,000 characters": b"x" * 4000,
    "300 characters": b"x" * 300,
    "300 folders": b"/".join([b"d"] * 300),
    "letters of both cases": b"POINTS",
    "a dataset inside a dataset": b"points/inside",
    "markup": b"<img src=x onerror=alert(1)>",
    "a space at its end": b"points ",
    "the name of the workspace": b"tables",
    "a decomposed letter": "cafe\u0301".encode(),
}


def _raw_tree(*entries: tuple[bytes, bytes, str]) -> Callable[[Scene], None]:
    """Put entries that git itself would refuse into the top folder."""

    def make(scene: Scene) -> None:
        objects = scene.objects()
        top = objects.repository.revparse_single("main^{tree}").read_raw()
        points = run_git("rev-parse", "main:points", cwd=scene.repo)
        blob = objects.blob(b"words").decode()
        data = top + b"".join(
            mode + b" " + name + b"\0" + bytes.fromhex({"tree": points, "blob": blob}[what])
            for mode, name, what in entries
        )
        tree = objects.write(ObjectType.TREE, data)
        head = run_git("rev-parse", "main", cwd=scene.repo).encode()
        scene.arrive(objects.commit([head], tree).decode())

    return make


def _files(*paths: tuple[str, bytes, bytes]) -> Callable[[Scene], None]:
    """Commit files with these modes; `OUT`, `PROGRAM` and `URL` in them are places."""

    def make(scene: Scene) -> None:
        places = {b"OUT": scene.outside, b"PROGRAM": scene.program, b"URL": scene.url}
        changes: dict[str | bytes, Change] = {}
        for path, mode, data in paths:
            for word, place in places.items():
                data = data.replace(word, str(place).encode())
            changes[path] = mode, data
        scene.commit(changes)

    return make


def _embedded(name: str, within: str = "") -> Callable[[Scene], None]:
    """Commit and check out a git directory whose settings run a program; go there."""

    def make(scene: Scene) -> None:
        settings = b"".join(
            b"[%s]\n\t%s = PROGRAM\n" % words
            for words in (
                (b"core", b"fsmonitor"),
                (b"core", b"sshCommand"),
                (b"core", b"pager"),
                (b"diff", b"external"),
                (b"credential", b"helper"),
                (b"core", b"hooksPath"),
            )
        )
        bare = b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n"
        head = run_git("rev-parse", "main", cwd=scene.repo).encode()
        _files(
            (f"{name}/HEAD", FILE, b"ref: refs/heads/main\n"),
            (f"{name}/config", FILE, bare + settings),
            (f"{name}/objects/info/alternates", FILE, b"../../../.git/objects\n"),
            (f"{name}/refs/heads/main", FILE, head + b"\n"),
            (f"{name}/hooks/post-checkout", PROGRAM, b"#!/bin/sh\nPROGRAM\n"),
        )(scene)
        run_git("checkout", "-q", "HEAD", "--", name, cwd=scene.repo)
        scene.within = f"repo/{within or name}"

    return make


def _module(path: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        head = run_git("rev-parse", "main", cwd=scene.repo).encode()
        scene.commit({path: (MODULE, head)})

    return make


def _ref(name: str, to: str = "") -> Callable[[Scene], None]:
    """Make a ref by hand, here and on the server."""

    def make(scene: Scene) -> None:
        head = run_git("rev-parse", "main", cwd=scene.repo)
        for top in (scene.repo / ".git", scene.server):
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{to or head}\n")

    return make


def _packed(line: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        head = run_git("rev-parse", "main", cwd=scene.repo)
        for top in (scene.repo / ".git", scene.server):
            with (top / "packed-refs").open("ab") as file:
                file.write(line.format(head=head).encode("utf-8", "surrogateescape") + b"\n")

    return make


def _link_ref(scene: Scene) -> None:
    (scene.repo / ".git" / "refs" / "heads" / "evil").symlink_to(scene.outside / "secret.txt")


def _tag(message: bytes, name: bytes = b"evil", tagger: bytes = b"") -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        head = run_git("rev-parse", "main", cwd=scene.repo).encode()
        who = tagger or b"Mallory <m@example.com> 1700000000 +0000"
        data = b"object %s\ntype commit\ntag %s\ntagger %s\n\n%s" % (head, name, who, message)
        oid = scene.objects().write(ObjectType.TAG, data).decode()
        scene.commit({"readme.txt": b"words"})
        _ref("refs/tags/evil", oid)(scene)

    return make


def _tag_of_tags(scene: Scene) -> None:
    objects = scene.objects()
    oid, kind = run_git("rev-parse", "main", cwd=scene.repo), "commit"
    for _ in range(3000):
        data = f"object {oid}\ntype {kind}\ntag evil\ntagger M <m@e> 1700000000 +0000\n\nx\n"
        oid, kind = objects.write(ObjectType.TAG, data.encode()).decode(), "tag"
    scene.commit({"readme.txt": b"words"})
    _ref("refs/tags/evil", oid)(scene)


def _tag_of_a_file(scene: Scene) -> None:
    oid = scene.objects().blob(b"words").decode()
    scene.commit({"readme.txt": b"words"})
    _ref("refs/tags/evil", oid)(scene)


def _message(message: bytes, who: bytes = b"") -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        scene.commit({"readme.txt": b"words"}, message=message, who=who)

    return make


def _encoding(scene: Scene) -> None:
    objects = scene.objects()
    head = run_git("rev-parse", "main", cwd=scene.repo)
    tree = run_git("rev-parse", "main^{tree}", cwd=scene.repo)
    who = "Mallory <m@example.com> 1700000000 +0000"
    data = f"tree {tree}\nparent {head}\nauthor {who}\ncommitter {who}\nencoding idna\n\n"
    oid = objects.write(ObjectType.COMMIT, data.encode() + b"a" * 50_000 + b".\xff")
    scene.arrive(oid.decode())


def _cut(name: str, *, left: float = 0.5) -> Callable[[Scene], None]:
    """Two commits in loose files, of which one was cut short as by a crash."""

    def make(scene: Scene) -> None:
        for number in range(2):
            noise = b"".join(b"%x" % (n * n * 7919 % 65537) for n in range(400))
            scene.commit(
                {
                    "readme.txt": b"words %d" % number,
                    f"{DATASET}/meta/title": b"Points %d" % number,
                    f"{DATASET}/meta/description": noise + b"%d" % number,
                }
            )
        oid = run_git("rev-parse", name, cwd=scene.repo)
        place = scene.repo / ".git" / "objects" / oid[:2] / oid[2:]
        data = place.read_bytes()
        place.unlink()
        place.write_bytes(data[: int(len(data) * left)])

    return make


def _parent_of_itself_is_missing(scene: Scene) -> None:
    tree = run_git("rev-parse", "main^{tree}", cwd=scene.repo).encode()
    scene.arrive(scene.objects().commit([b"ab" * 20], tree).decode())


def _many_parents(scene: Scene) -> None:
    head = run_git("rev-parse", "main", cwd=scene.repo).encode()
    tree = run_git("rev-parse", "main^{tree}", cwd=scene.repo).encode()
    objects = scene.objects()
    parents = [objects.commit([head], tree, message=b"%d" % n) for n in range(300)]
    scene.arrive(objects.commit(parents, tree).decode())


def _replaced(scene: Scene) -> None:
    """A replace ref by which git sees another commit than was pushed."""
    old = run_git("rev-parse", "main~2", cwd=scene.repo)
    head = run_git("rev-parse", "main", cwd=scene.repo)
    scene.commit({"readme.txt": b"words"})
    _ref(f"refs/replace/{head}", old)(scene)


def _grafts(scene: Scene) -> None:
    scene.commit({"readme.txt": b"words"})
    for top in (scene.repo / ".git", scene.server):
        (top / "shallow").write_text("x" * 4000 + "\n")


def _many_datasets(scene: Scene) -> None:
    tree = run_git("rev-parse", f"main:{DATASET}", cwd=scene.repo).encode()
    scene.commit({f"d/{n}/.havasu-dataset": (FOLDER, tree) for n in range(200)})


def _tree_bomb(scene: Scene) -> None:
    """Five levels of ten folders that are all the same."""
    objects = scene.objects()
    tree = objects.tree(None, {b"x%d" % n: b"words" for n in range(10)})
    for _ in range(4):
        tree = objects.tree(None, {b"x%d" % n: (FOLDER, tree) for n in range(10)})
    scene.commit({"bomb": (FOLDER, tree)})


def _dataset_bomb(scene: Scene) -> None:
    """The same inside a dataset."""
    objects = scene.objects()
    tree = objects.tree(None, {b"x%d" % n: b"words" for n in range(10)})
    for _ in range(4):
        tree = objects.tree(None, {b"x%d" % n: (FOLDER, tree) for n in range(10)})
    scene.commit({f"{DATASET}/meta/crs/bomb": (FOLDER, tree)})


def _locks(*names: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        scene.commit({"readme.txt": b"words"})
        for name in names:
            (scene.repo / ".git" / name).write_bytes(b"not what a lock says \xff\x00" * 100)

    return make


def _state(name: str, data: bytes) -> Callable[[Scene], None]:
    """Leave a file where our own state is kept."""

    def make(scene: Scene) -> None:
        scene.commit({"readme.txt": b"words"})
        place = scene.repo / ".git" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.replace(b"OUT", str(scene.outside).encode()))

    return make


_STATES = {
    "a workspace elsewhere": b'{"format":1,"root":"OUT","flavour":"spark","copy":false,'
    b'"refs":false,"tables":{}}',
    "a workspace that is nested": b"[" * 100_000,
    "a workspace with huge numbers": b'{"format":1,"root":"/x","version":' + b"9" * 1_000_000,
}


def _packed_line(scene: Scene) -> None:
    _packed("{head} refs/heads/\ud800\udcff\x1b[31m".replace("\ud800", ""))(scene)


ITEMS = [
    *(
        Item("path", what, _dataset_called(name), _PATHS, good=what != "300 folders")
        for what, name in _NAMES.items()
    ),
    Item("path", "git's own folder", _raw_tree((b"40000", b".git", "tree")), _PATHS),
    Item("path", "two dots", _raw_tree((b"40000", b"..", "tree")), _PATHS),
    Item("path", "one dot", _raw_tree((b"40000", b".", "tree")), _PATHS),
    Item(
        "path",
        "a slash in a name",
        _raw_tree((b"100644", b"zz/../../x", "blob")),
        _PATHS,
        good=False,
    ),
    Item("path", "no name", _raw_tree((b"100644", b"", "blob")), _PATHS, good=False),
    Item("path", "the same name twice", _raw_tree((b"40000", b"points", "tree")), _PATHS),
    Item("path", "an unknown mode", _raw_tree((b"777777", b"zz", "blob")), _PATHS),
    Item("path", "200 datasets", _many_datasets, "ls status review log merge"),
    Item("path", "100,000 files that are one", _tree_bomb, "ls status diff fsck", slow=True),
    Item("path", "100,000 files in a dataset", _dataset_bomb, "ls diff export", slow=True),
    *(
        Item("link", f"{where} is a link", _files((where, LINK, target)), commands)
        for where, target, commands in (
            ("tables", b"OUT", "checkout status copy commit"),
            ("tables/points", b"OUT", "checkout status stash"),
            ("points", b"good", "ls good diff checkout"),
            (DATASET, b"OUT", "ls good diff checkout review"),
            (f"{DATASET}/dataset.json", b"OUT/secret.json", "ls good diff export show"),
            (f"{DATASET}/meta", b"OUT", "ls good diff meta checkout"),
            (f"{DATASET}/meta/title", b"OUT/secret.txt", "ls meta show diff review patch"),
            (f"{DATASET}/columns/1.json", b"OUT/secret.json", "diff meta export review"),
            (f"{DATASET}/files", b"../../good/.havasu-dataset/files", "diff export fsck"),
            (".gitattributes", b"OUT/secret.txt", "status diff checkout switch merge"),
            (".havasu/policy.toml", b"OUT/secret.txt", "check commit review merge"),
            (".lfsconfig", b"OUT/secret.txt", "fetch push clone"),
            ("readme.txt", b"OUT/secret.txt", "diff show review patch push"),
        )
    ),
    *(
        Item("link", f"{where} is a submodule", _module(where), commands)
        for where, commands in (
            ("points", "ls good diff checkout review"),
            (DATASET, "ls good status diff merge"),
            (f"{DATASET}/meta", "ls good diff export fsck"),
            (f"{DATASET}/meta/title", "ls meta diff review"),
            (f"{DATASET}/dataset.json", "ls good diff checkout"),
            ("tables", "checkout status commit"),
        )
    ),
    Item("ref", "a branch called as an option", _ref("refs/heads/--upload-pack=x"), "tag log push"),
    Item("ref", "a branch called HEAD", _ref("refs/heads/HEAD"), "log tag status switch"),
    Item("ref", "a branch called by an id", _ref("refs/heads/" + "ab" * 20), "log tag switch"),
    Item("ref", "a branch with markup", _ref("refs/heads/<img>&'"), "log tag status review"),
    Item("ref", "a branch of 200 characters", _ref("refs/heads/" + "b" * 200), "log tag status"),
    Item("ref", "a ref that is a path", _ref("refs/heads/evil", "ref: ../../x"), "log tag gc"),
    Item("ref", "a ref to itself", _ref("refs/heads/evil", "ref: refs/heads/evil"), "log tag gc"),
    Item("ref", "a ref that is no id", _ref("refs/heads/evil", "zz" * 20), "log tag gc fsck"),
    Item("ref", "a ref to nothing", _ref("refs/heads/evil", "ab" * 20), "log tag gc fsck push"),
    Item("ref", "a ref of a megabyte", _ref("refs/heads/evil", "ab" * 500_000), "log tag gc"),
    Item(
        "ref",
        "a ref that links outside",
        _link_ref,
        "log tag gc fsck push",
        may_open=("secret.txt",),
    ),
    Item("ref", "odd bytes in packed refs", _packed_line, "log tag gc fsck push fetch"),
    Item("ref", "a packed ref that is a path", _packed("{head} refs/../../x"), "log tag gc fetch"),
    Item("ref", "packed refs of nothing", _packed("words"), "log tag gc fetch good"),
    Item("ref", "a replaced commit", _replaced, "ls log diff good fetch"),
    Item("ref", "a shallow file of nonsense", _grafts, "ls log diff fetch", good=False),
    Item("tag", "bytes 1 and 2", _tag(b"a\x01b\x02refs/tags/forged\x01x\n"), "log tag show fsck"),
    Item("tag", "colours", _tag(b"\x1b[31mred\x1b]0;title\x07 \xc2\x9b31m\n"), "log tag show"),
    Item("tag", "text that turns around", _tag("\u202eevil\u2066\n".encode()), "log tag show"),
    Item("tag", "zero bytes", _tag(b"a\x00b\n"), "log tag show fsck"),
    Item("tag", "bytes that are no text", _tag(b"\xff\xfe\n"), "log tag show fsck fetch"),
    Item(
        "tag",
        "a message of 10 MB",
        _tag(b"words " * 1_700_000),
        "log tag show",
        unpacked=10_200_000,
    ),
    Item("tag", "another name inside", _tag(b"x\n", name=b"v1"), "log tag show fsck"),
    Item(
        "tag",
        "a tagger of nonsense",
        _tag(b"x\n", tagger=b"<<<>>> 99999999999999999999"),
        "tag log",
    ),
    # git itself takes 280 MB to send and to store these.
    Item("tag", "a tag of 3,000 tags", _tag_of_tags, "log tag show gc fetch", unpacked=40_000_000),
    Item("tag", "a tag of a file", _tag_of_a_file, "log tag show gc fetch push"),
    Item(
        "commit",
        "colours",
        _message(b"\x1b[31mred\x1b]0;title\x07 \xc2\x9b31m\n"),
        "log show review",
    ),
    Item("commit", "text that turns around", _message("\u202eevil\n".encode()), "log show review"),
    Item("commit", "markup", _message(b"</script><script>alert(1)</script>\n"), "log show review"),
    Item("commit", "bytes 1 and 2", _message(b"a\x01b\x02c\x1e\x1f\n"), "log show blame"),
    Item("commit", "zero bytes", _message(b"a\x00b\x00\n"), "log show blame fsck"),
    Item("commit", "bytes that are no text", _message(b"\xff\xfe\n"), "log show blame patch"),
    Item(
        "commit",
        "a message of 5 MB",
        _message(b"words to be read by nobody\n" * 180_000),
        "show log",
        unpacked=4_800_000,
    ),
    Item(
        "commit", "a name of markup", _message(b"x\n", b"<b>\x1b[31m <m> 1 +0000"), "log show blame"
    ),
    Item("commit", "no name", _message(b"x\n", b" <> 0 +0000"), "log show blame patch"),
    Item("commit", "no address", _message(b"x\n", b"Mallory 0 +0000"), "log show blame fsck"),
    Item(
        "commit",
        "the year 10^12",
        _message(b"x\n", b"M <m> 99999999999999999 +0000"),
        "log show blame patch",
    ),
    Item(
        "commit",
        "a time of 60 digits",
        _message(b"x\n", b"M <m> " + b"9" * 60 + b" +0000"),
        "log show blame patch",
    ),
    Item(
        "commit",
        "a time before all",
        _message(b"x\n", b"M <m> -99999999999 +0000"),
        "log show blame patch",
    ),
    Item(
        "commit",
        "a zone of nonsense",
        _message(b"x\n", b"M <m> 1700000000 +9999"),
        "log show blame patch",
    ),
    Item("commit", "no time", _message(b"x\n", b"M <m>"), "log show blame patch"),
    Item("commit", "a slow encoding", _encoding, "log show blame patch"),
    Item("commit", "a parent that is missing", _parent_of_itself_is_missing, "log diff fsck good"),
    Item("commit", "300 parents", _many_parents, "log show diff fsck"),
    *(
        Item("object", f"{what} that is cut short", _cut(name), commands, good=good)
        for what, name, commands, good in (
            ("HEAD's commit", "main", "log good status diff fsck fetch", False),
            ("a commit before HEAD's", "main^", "log good status diff fsck fetch merge", True),
            ("the top folder", "main^{tree}", "ls good status diff fsck fetch", False),
            ("a folder of datasets", "main:points", "ls good status diff fsck fetch", False),
            ("a dataset's folder", f"main:{DATASET}", "ls good status diff fsck fetch", True),
            ("a dataset's document", f"main:{DATASET}/meta/description", "meta good fsck", True),
            ("a file that is none of ours", "main:readme.txt", "diff good fsck fetch", True),
        )
    ),
    Item(
        "object", "a commit of no bytes", _cut("main", left=0), "log good status fsck", good=False
    ),
    Item(
        "lock",
        "git's, of nobody",
        _locks("index.lock", "HEAD.lock", "refs/heads/main.lock", "packed-refs.lock"),
        "ls good status commit meta-set",
    ),
    Item(
        "lock",
        "ours, of nonsense",
        _locks("havasu/lock", "havasu/commit-lock", "havasu/workspace-lock"),
        "ls good status checkout commit gc meta-set",
    ),
    *(
        Item("state", what, _state("havasu/workspace.json", data), "ls good status checkout commit")
        for what, data in _STATES.items()
    ),
    *(
        Item("state", what, _state(name, data), "status good conflicts merge commit repair")
        for what, name, data in (
            ("a merge of nonsense", "MERGE_HEAD", b"\xff\x00words\n" * 50),
            ("a merge of nothing", "MERGE_HEAD", b"ab" * 20 + b"\n"),
            ("our merge, of nonsense", "havasu/merge.json", b"[" * 100_000),
            ("a message of odd bytes", "MERGE_MSG", b"\xff\x1b[31m" * 50),
        )
    ),
    Item(
        "clone",
        "filters and drivers of a tree",
        _files(
            (".gitattributes", FILE, b"* filter=evil diff=evil merge=evil text eol=crlf\n"),
            (".gitconfig", FILE, b"[core]\n\tfsmonitor = PROGRAM\n\tpager = PROGRAM\n"),
            ("points/readme.txt", FILE, b"words\n"),
        ),
        "status diff checkout clone merge switch stash",
    ),
    *(
        Item(
            "clone",
            f"a git directory in a tree, {what}",
            _embedded(name, within),
            "status ls diff checkout commit meta-set fsck gc",
            good=False,
        )
        for what, name, within in (
            ("gone to", "evil", ""),
            ("gone into", "evil", "evil/refs/heads"),
            ("of Kart", "evil/.kart", "evil"),
        )
    ),
    Item(
        "clone",
        "hooks of a tree",
        _files(
            ("hooks/post-checkout", PROGRAM, b"#!/bin/sh\nPROGRAM\n"),
            (".githooks/pre-push", PROGRAM, b"#!/bin/sh\nPROGRAM\n"),
            (".husky/pre-commit", PROGRAM, b"#!/bin/sh\nPROGRAM\n"),
        ),
        "checkout clone push meta-set merge",
    ),
    Item(
        "clone",
        "an LFS address of a tree",
        _files((".lfsconfig", FILE, b"[lfs]\n\turl = URL/lfs\n\tpushurl = URL/lfs\n")),
        "clone fetch push clone-late",
    ),
    Item(
        "clone",
        "an LFS address that is a file",
        _files((".lfsconfig", FILE, b"[lfs]\n\turl = file://OUT\n")),
        "clone fetch push clone-late",
    ),
    Item(
        "clone",
        "an LFS program",
        _files(
            (
                ".lfsconfig",
                FILE,
                b'[lfs]\n\tstandalonetransferagent = x\n[lfs "customtransfer.x"]\n'
                b"\tpath = PROGRAM\n[credential]\n\thelper = PROGRAM\n",
            )
        ),
        "clone fetch push clone-late",
    ),
    Item(
        "clone",
        "settings of ours in a tree",
        _files((".havasu/config", FILE, b"[havasu]\n\tdata.url = URL\n\tlinked.allow = /\n")),
        "clone fetch push export",
    ),
    Item(
        "clone",
        "submodules by a program",
        _files((".gitmodules", FILE, b'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c PROGRAM\n')),
        "clone fetch push checkout",
    ),
    Item(
        "clone",
        "a file that git would call its own",
        _files((".git/config", FILE, b"[core]\n\tfsmonitor = PROGRAM\n")),
        "clone fetch status checkout good",
    ),
]


def _workspace(scene: Scene) -> None:
    """A commit that holds an edited table where a checkout puts tables."""
    from havasu_vc.formats.iceberg.values import DataFile
    from tests.workspace import by_hand

    table = scene.repo / "tables" / "points"
    secret = scene.outside / "secret.parquet"
    by_hand.write_snapshot(table, come=[DataFile(str(secret), 1, secret.stat().st_size)])
    changes: dict[str | bytes, Change] = {
        str(path.relative_to(scene.repo)): path.read_bytes()
        for path in sorted(table.rglob("*"))
        if path.is_file()
    }
    scene.commit(changes)


ITEMS.append(
    Item(
        "clone",
        "tables in a commit",
        _workspace,
        "status clone checkout commit merge-in edits fetch",
    )
)
