import os
import subprocess
import sys

import pytest

from havasu_vc.cli.standard_streams import give_back_memory

VARIABLE = "MIMALLOC_PURGE_DELAY"


def test_what_a_user_sets_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "50")
    give_back_memory()

    assert os.environ[VARIABLE] == "50"


def test_a_review_asks_before_arrow_is_loaded() -> None:
    code = (
        "import os, sys\n"
        "from click.testing import CliRunner\n"
        "from havasu_vc.cli.commands import review\n"
        "assert 'pyarrow' not in sys.modules\n"
        "CliRunner().invoke(review.command, ['a..b'])\n"
        f"assert os.environ['{VARIABLE}'] == '0'\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
