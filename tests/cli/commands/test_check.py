"""`havasu-vc check`, and `commit` where there is a policy."""

import json
import shutil
from pathlib import Path

from tests.cli.conftest import invoke, succeed


def test_check(template: Path, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(template, repo)
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[[dataset]]\nmax-deletes = 0\n[[dataset]]\nlevel = "warn"\nmax-deletes = 0\n'
    )

    assert "there is no .havasu/policy.toml" in succeed(invoke(["-C", repo, "check"])).stderr
    found = invoke(["-C", repo, "check", "--policy", policy])
    assert found.exit_code == 1
    assert found.stdout == (
        "refused: points: 1 row deleted, and 0 may be\n"
        "warning: points: 1 row deleted, and 0 may be\n"
    )
    first = invoke(["-C", repo, "check", "HEAD^", "--policy", policy])
    assert (first.exit_code, first.stdout) == (0, "")
    assert "nothing is against the policy" in first.stderr
    again = invoke(["-C", repo, "check", "HEAD^..HEAD", "--policy", policy, "-o", "json"])
    assert again.exit_code == 1
    value = json.loads(again.stdout)["havasu.check/v1"]
    assert (value["range"], value["refused"]) == ("HEAD^..HEAD", 1)
    assert [each["rule"] for each in value["findings"]] == ["max-deletes", "max-deletes"]


def test_errors_in_a_policy(template: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[[dataset]]\nmax-delets = 0\n")

    wrong = invoke(["-C", template, "check", "--policy", policy])
    assert wrong.exit_code not in (0, 1)
    assert "policy.toml, line 2: 'max-delets' is not known here" in wrong.stderr
    absent = invoke(["-C", template, "check", "--policy", tmp_path / "absent"])
    assert "cannot be read" in absent.stderr
