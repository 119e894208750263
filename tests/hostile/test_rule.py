"""The rule itself: each way to break it is noticed."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.commands import run
from tests.hostile.items import Item
from tests.hostile.rule import Normal, _broken, _said, broken
from tests.hostile.scene import SECRET, Ground, Result, Scene, ground, place

pytestmark = pytest.mark.xdist_group("hostile")

NOTHING = Item("none", "nothing", lambda _: None, "ls")
QUICK = Normal(0.1, 1 << 20)


@pytest.fixture(scope="module")
def jail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(tmp_path_factory.mktemp("rule")) as made:
        yield made


@pytest.fixture
def scene(jail: Ground) -> Scene:
    place(jail)
    (jail.folder / "out").mkdir()
    return Scene(jail, jail.folder)


def result(**facts: object) -> Result:
    told = {
        "arguments": ("data", "ls"),
        "code": 0,
        "late": False,
        "processor": 0.1,
        "wall": 0.1,
        "memory": 1 << 20,
        "output": b"points\n",
        "errors": b"",
    }
    return Result(**{**told, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"late": True, "code": -9}, "did not end"),
        ({"code": -11}, "ended by"),
        ({"code": 11, "errors": b"Error: internal error: KeyError"}, "internal error"),
        ({"code": 11, "errors": b"Error: not enough memory"}, "not enough memory"),
        ({"output": SECRET.encode()}, "a secret"),
        ({"output": b"\x1b[2J"}, "prints"),
        ({"output": "\u202e".encode()}, "prints"),
        ({"code": 11}, "without a word"),
        ({"code": 11, "errors": b"Error: a\nError: b\n"}, "2 errors"),
        ({"code": 11, "errors": b"Error: " + b"a" * 9000}, "an error of"),
    ],
)
def test_what_a_command_says(facts: dict[str, object], words: str) -> None:
    assert any(words in found for found in _said(result(**facts)))
    assert _said(result()) == []
    assert _said(result(output=b"\x1b[32mgreen\x1b[m\n")) == []


def _read(scene: Scene) -> None:
    (scene.outside / "secret.txt").read_bytes()


def _write(scene: Scene) -> None:
    (scene.outside / "marks" / "ran").touch()


def _ask(scene: Scene) -> None:
    urllib.request.urlopen(scene.url).close()


def _leave(scene: Scene) -> None:
    (scene.ground.temporary / "left").touch()


def _export(scene: Scene) -> None:
    (scene.folder / "out" / "out.json").write_text(json.dumps(SECRET))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_read, "opened"),
        (_write, "wrote outside"),
        (_ask, "asked a stranger"),
        (_leave, "wrote outside"),
        (_export, "holds a secret"),
    ],
)
def test_what_a_command_does(scene: Scene, harm: Callable[[Scene], None], words: str) -> None:
    harm(scene)
    found = _broken(scene, NOTHING, "diff", [result()], QUICK, 0)
    assert any(words in each for each in found)
    assert _broken(scene, NOTHING, "diff", [result()], QUICK, 0) == [] or harm is _export


@pytest.mark.thorough
def test_what_a_command_takes(scene: Scene) -> None:
    for facts in ({"processor": 2.5}, {"memory": 60 << 20}):
        (found,) = _broken(scene, NOTHING, "diff", [result(**facts)], QUICK, 0)
        assert " took " in found
    large = result(processor=2.5, memory=60 << 20)
    assert _broken(scene, NOTHING, "diff", [large], QUICK, 4 << 20) == []


@pytest.mark.thorough
def test_a_good_dataset_must_be_read(scene: Scene) -> None:
    (found,) = _broken(scene, NOTHING, "good", [result(code=11, errors=b"Error: no\n")], QUICK, 0)
    assert "good dataset" in found


@pytest.mark.thorough
def test_commands_are_run_in_a_process_of_their_own(scene: Scene) -> None:
    listed, again = run(scene, "ls")
    assert listed.output == b"good\npoints\n" and listed.code == 0
    assert json.loads(again.output) and listed.memory > 1 << 20 and listed.wall > 0
    assert Path(scene.repo).is_dir()


@pytest.mark.thorough
def test_a_command_that_writes_meets_the_item(jail: Ground) -> None:
    """Each gets the scene with the item in it, and not the one that was there before."""

    def make(scene: Scene) -> None:
        scene.source = scene.folder / "evil.json"
        scene.source.write_text('{"kart.patch/v1": "' + SECRET + '"}', encoding="utf-8")
        (scene.repo / "\x1b[31m").mkdir()

    item = Item("none", "a source", make, "apply")
    assert broken(jail, item, ["apply"], {}) == []
    assert (jail.folder / "evil.json").exists() and (jail.folder / "repo" / "\x1b[31m").is_dir()
    assert broken(jail, item, ["ls", "apply", "import"], {}) == []
    assert (jail.folder / "evil.json").exists()
