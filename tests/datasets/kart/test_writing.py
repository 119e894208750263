"""Folders of features are what they would be if all files were put in one by one."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.kart import writing
from havasu_vc.datasets.kart.writing import FeatureChanges
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.trees import edit_tree
from tests.support.examples import examples

PATHS = st.tuples(
    st.sampled_from([b"A/A", b"A/B", b"B/A", b"_/-"]),
    st.integers(0, 40).map(lambda number: b"k%dA=" % number),
)


@examples(60)
@given(
    before=st.dictionaries(PATHS, st.binary(max_size=2), max_size=20),
    changes=st.dictionaries(PATHS, st.none() | st.binary(max_size=2), max_size=60),
    sizes=st.lists(st.integers(1, 20), max_size=10),
    run=st.integers(1, 30),
    sample=st.integers(1, 4),
)
def test_runs_on_disk_make_the_same_folders(
    before: dict[tuple[bytes, bytes], bytes],
    changes: dict[tuple[bytes, bytes], bytes | None],
    sizes: list[int],
    run: int,
    sample: int,
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "RUN", max(run, sample))
        patch.setattr(writing, "_SAMPLE", sample)
        repository = init_repository(Path(folder) / "repo", bare=True)
        with repository.writer() as writer:
            first = edit_tree(writer, None, {text(path): data for path, data in before.items()})
            found = FeatureChanges()
            rest = list(changes.items())
            while rest:
                size = sizes.pop() if sizes else len(rest)
                some, rest = rest[:size], rest[size:]
                found.add(
                    [path[0] for path, _ in some],
                    [path[1] for path, _ in some],
                    [
                        None if d is None else bytes.fromhex(writer.write("blob", d))
                        for _, d in some
                    ],
                )
            assert len(found) == len(changes)
            made = found.write(writer, first.replace(EMPTY_TREE, ""))
            told = {path: identity.hex() for path, identity in found.paths()}
        with repository.writer() as writer:
            after = {**before, **changes}
            files = {text(path): data for path, data in after.items() if data is not None}
            assert (made or EMPTY_TREE) == edit_tree(writer, None, files)
            assert told == {
                text(path): "" if data is None else writer.write("blob", data)
                for path, data in changes.items()
            }


@pytest.mark.parametrize("run", [1, 2, 100])
def test_a_name_that_comes_twice_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    monkeypatch.setattr(writing, "RUN", run)
    monkeypatch.setattr(writing, "_SAMPLE", 1)
    repository = init_repository(tmp_path / "repo", bare=True)
    found = FeatureChanges()
    for name in (b"kQE=", b"kQI=", b"kQE="):
        found.add([b"A/A"], [name], [bytes(19) + b"1"])
    with repository.writer() as writer, pytest.raises(ValueError) as caught:
        found.write(writer, "")
    assert caught.value.args == (b"kQE=",)


def text(path: tuple[bytes, bytes]) -> str:
    return b"/".join(path).decode()
