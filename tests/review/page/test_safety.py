"""Nothing that stands in the data becomes part of the page, and the page asks nobody."""

import re
from typing import Any

from havasu_vc.model.diffs import DatasetDiff, MetaChange
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.review.page.document import asset, script
from tests.review.page.conftest import Opened
from tests.review.page.pages import many, written
from tests.writers.cases import batch, diff_of, header

EVIL = (
    "</script><script>hacked = 1</script>",
    "<img src=x onerror=hacked=1>",
    "<svg onload=hacked=1>",
    "\"><iframe srcdoc='<script>top.hacked=1</script>'>",
    "' onmouseover='hacked=1' x='",
    "<!--<script>",
    "--></style><style>*{display:none}</style>",
    "]]><meta http-equiv=refresh content='0;url=https://example.org'>",
    "javascript:hacked=1",
    "{{script}} {{data}} ${hacked=1} \\1 \\g<0>",
    "&lt;b&gt; &amp; &#60;",
    "\u2028hacked=1\u2029 \u202ereversed\u2066 \x00\x1b[31m \ufeff",
    "`code` <b>`bold`</b>",
    "__proto__",
    "constructor",
)


def evil_diffs() -> list[DatasetDiff]:
    found = []
    for number, text in enumerate(EVIL):
        schema = Schema(
            (
                Field(1, f"key {text}", Primitive.STRING, required=True),
                Field(2, text, Primitive.STRING),
                Field(3, "kind", Primitive.STRING),
            ),
            (1,),
        )
        before = header(schema, f"d{number}/{text}", title=text)
        after = header(schema, f"d{number}/{text}", title=text + "!")
        row = {f"key {text}": text, text: "old " + text, "kind": "a"}
        changes = [
            (row, row | {text: text}),
            (None, row | {f"key {text}": text + "2"}),
            (row | {f"key {text}": text + "3"}, None),
            (None, row | {f"key {text}": text + "4"}),
        ]
        meta = (MetaChange("title", text, text + "!"), MetaChange(text, None, text))
        found.append(diff_of(batch(schema, schema, *changes), old=before, new=after, meta=meta))
    return found


def test_values_are_never_markup(opened: Opened) -> None:
    tab = opened(evil_diffs(), names=(EVIL[0], EVIL[3]))
    assert tab.text("#range") == f"{EVIL[0]} → {EVIL[3]}"[:200]
    tags = "[...document.querySelectorAll('*')].map((e) => e.localName)"
    known = set(re.findall(r"<([a-z][a-z0-9]*)", asset("page.html")))
    known |= set(re.findall(r'element\("(\w+)"', script())) | {"bdi", "del", "ins", "tbody"}
    tab.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    for _ in range(0, 4 * len(EVIL), 5):
        tab.key("j", "j", "j", "j", "j")
        assert set(tab.run(tags)) <= known
        attributes = tab.run(
            "[...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())"
        )
        assert [name for name in attributes if name.startswith("on")] == []
    assert tab.run("document.scripts.length") == 3
    assert tab.run("document.images.length") == 0
    assert tab.run("typeof hacked") == "undefined"
    assert tab.run("document.querySelectorAll('a[href^=\"javascript\"]').length") == 0
    # Enter opens, the tip shows, and printing shows as well.
    tab.run("void dispatchEvent(new Event('beforeprint'))")
    assert set(tab.run(tags)) <= known


def test_every_text_is_shown(opened: Opened) -> None:
    tab = opened(evil_diffs())
    tab.run("document.getElementById('table').focus()")
    tab.key("ArrowDown")
    for text in EVIL:
        cell = tab.run("document.querySelector('#detail tbody td:last-child').textContent")
        printed = re.sub(r"[^ -~]", " ", text)
        assert all(word in cell for word in re.findall(r"[\w<>;&='/-]+", printed))
        for hidden in "\u202e\u2028\x00\x1b\ufeff":
            assert hidden not in cell
        tab.key("j", "j", "j", "j")


def test_what_the_data_holds_cannot_end_a_block() -> None:
    page = written(evil_diffs(), names=(EVIL[0], EVIL[5]))
    assert page.isascii()
    assert page.count("<script") == page.count("</script>") == 3
    assert "<img" not in page
    assert "<!--" not in page
    assert "hacked = 1</script>" not in page


def test_our_own_files_are_plain() -> None:
    code = script()
    assert code.isascii()
    assert "</script" not in code
    assert "<!--" not in code
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert forbidden not in code
    assert asset("page.css").isascii()
    assert asset("page.html").isascii()
    assert "http:" not in code
    assert "https:" not in code


def test_the_policy_holds(opened: Opened) -> None:
    tab = opened([many(10)])
    blocked: Any = tab.run(
        """(async () => {
        const blocked = [];
        const keep = (event) => blocked.push(event.effectiveDirective);
        addEventListener("securitypolicyviolation", keep);
        const markup = "<img src='x' onerror='hacked=1'><b style='color:red'>";
        document.body.insertAdjacentHTML("beforeend", markup);
        const script = document.createElement("script");
        script.textContent = "hacked=1";
        document.body.append(script);
        await fetch("https://example.org/").catch(() => {});
        await new Promise((done) => setTimeout(done, 100));
        return blocked;
      })()"""
    )
    assert {"script-src-elem", "connect-src", "img-src", "style-src-attr"} <= set(blocked)
    assert tab.run("typeof hacked") == "undefined"
    # What was blocked was logged; that was wanted here.
    tab.problems.clear()
    tab.requests.clear()
