"""JSON Schemas of what commands print, made of the types in `cli.forms`.

`docs/reference/json/` holds them, and `docs/reference/json-forms.md` is the page that lists them; a
test fails when they are out of date, and `make golden` writes them anew.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from havasu_vc.cli.forms import FORMS, PRINTED
from havasu_vc.writers.json_style import json_name

__all__ = ["file_name", "format_page", "format_schema", "schema"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    bytes: {"title": "geometry of GeoJSON", "type": "object", "required": ["type"]},
}


def file_name(form: str) -> str:
    """Return what the file of a form's schema is called.

    >>> file_name("havasu.switch/v1")
    'havasu.switch-v1.json'
    """
    return f"{form.replace('/', '-')}.json"


def format_schema(form: str) -> str:
    """Return the text of a form's schema."""
    return json.dumps(schema(form), indent=2) + "\n"


def schema(form: str, *, closed: bool = False) -> dict[str, Any]:
    """Return the schema of a document with a form; if `closed`, with the names of today alone."""
    parts: dict[str, Any] = {}
    value = _schema(FORMS[form], parts, closed)
    named = "/v" in form
    found: dict[str, Any] = {"$schema": _DIALECT, "title": form}
    if named:
        found |= {"type": "object", "properties": {form: value}, "required": [form]}
    else:
        found |= value
    return {**found, **({"$defs": dict(sorted(parts.items()))} if parts else {})}


def _schema(of: Any, parts: dict[str, Any], closed: bool) -> dict[str, Any]:
    if of is Any or of is object:
        return {}
    if of in _PLAIN:
        return dict(_PLAIN[of])
    arguments = get_args(of)
    match get_origin(of):
        case None if is_typeddict(of) or is_dataclass(of):
            if of.__name__ not in parts:
                parts[of.__name__] = {}
                parts[of.__name__] = _object(of, parts, closed)
            return {"$ref": f"#/$defs/{of.__name__}"}
        case None if isinstance(of, type) and issubclass(of, Enum):
            return {"enum": [each.value for each in of]}
        case x if x in (list, tuple):
            return {"type": "array", "items": _schema(arguments[0], parts, closed)}
        case x if x in (dict, Mapping):
            values = _schema(arguments[1], parts, closed)
            return {"type": "object", "additionalProperties": values}
        case x if x in (Union, UnionType):
            return {"anyOf": [_schema(each, parts, closed) for each in arguments]}
        case x if x is Literal:
            return {"enum": list(arguments)}
        case x if x is NotRequired:
            return _schema(arguments[0], parts, closed)
    raise TypeError(f"no schema is known of {of}")


def _object(of: Any, parts: dict[str, Any], closed: bool) -> dict[str, Any]:
    told, hints, required = _sentences(of), _hints(of), set(_required(of))
    properties = {
        _name(of, name): {"description": told[name], **_schema(hint, parts, closed)}
        for name, hint in hints.items()
    }
    found: dict[str, Any] = {"type": "object", "description": _about(of)}
    found |= {"properties": properties, "required": sorted(_name(of, name) for name in required)}
    return {**found, **({"additionalProperties": False} if closed else {})}


def _name(of: Any, field: str) -> str:
    """Return what a field is called: those of our values have other names in JSON."""
    return json_name(field) if is_dataclass(of) else field


def _about(of: Any) -> str:
    """Return what a class is, without its examples."""
    return (inspect.getdoc(of) or "").partition("\n\n")[0]


def _hints(of: Any) -> dict[str, Any]:
    return get_type_hints(of, include_extras=True)


def _required(of: Any) -> set[str]:
    """Return the names that are always there.

    Annotations that are text hide `NotRequired` from Python's own list of them.
    """
    if is_dataclass(of):
        return set(_hints(of))
    required: frozenset[str] = of.__required_keys__
    return {
        n for n, hint in _hints(of).items() if n in required and get_origin(hint) is not NotRequired
    }


def _sentences(of: Any) -> dict[str, str]:
    """Return what stands below each name of a class, and of the classes above it."""
    bases, told = _classes(of.__module__)[of.__name__]
    found: dict[str, str] = {}
    for base in bases:
        if is_typeddict(above := getattr(sys.modules[of.__module__], base, None)):
            found |= _sentences(above)
    return found | told


@cache
def _classes(module: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the classes of a module: the names of those above each, and what its fields are."""
    found = {}
    for body in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(body, ast.ClassDef):
            told = {}
            for field, below in pairwise(body.body):
                match field, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        told[name] = " ".join(text.split())
            bases = [each.id for each in body.bases if isinstance(each, ast.Name)]
            found[body.name] = (bases, {name: _in_json(text) for name, text in told.items()})
    return found


def _in_json(text: str) -> str:
    """Return a sentence about a value of Python as one about the same in JSON."""
    return re.sub(r"\bNone\b", "null", text)


def format_page() -> str:
    """Return the page of the reference."""
    return "\n".join(["# Forms of JSON\n", *_commands(), *_sections()])


def _commands() -> Iterator[str]:
    yield "## Commands\n\n| Command | Forms |\n|---|---|"
    for command, forms in sorted(PRINTED.items()):
        links = ", ".join(f"[`{form}`](#{_anchor(form)})" for form in forms)
        yield f"| `{command}` | {links} |"
    yield ""


def _anchor(form: str) -> str:
    return "".join(each for each in form if each.isalnum() or each in "-_")


def _sections() -> Iterator[str]:
    for form in FORMS:
        yield f"## {form}\n"
        parts: dict[str, Any] = {}
        value = _schema(FORMS[form], parts, False)
        yield f"{_shape(value, parts)} [Schema](json/{file_name(form)})\n"
        for name, part in parts.items():
            if len(parts) > 1 and value.get("$ref") != f"#/$defs/{name}":
                yield f"**{name}**: {part['description']}\n"
            yield "| Name | Type | What it is |\n|---|---|---|"
            for field, described in part["properties"].items():
                optional = "" if field in part["required"] else ", perhaps"
                yield f"| `{field}` | {_type(described)}{optional} | {described['description']} |"
            yield ""


def _shape(value: dict[str, Any], parts: dict[str, Any]) -> str:
    if "$ref" in value:
        return str(parts[value["$ref"].rpartition("/")[2]]["description"])
    return f"{_type(value)[:1].upper()}{_type(value)[1:]}."


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return str(value["$ref"].rpartition("/")[2])
    if "anyOf" in value:
        return " or ".join(_type(each) for each in value["anyOf"])
    if "enum" in value:
        return " or ".join(f"`{each}`" for each in value["enum"])
    match value.get("type"):
        case "array":
            return f"list of {_type(value['items'])}"
        case "object" if "title" in value:
            return str(value["title"])
        case "object":
            return f"object of {_type(value['additionalProperties'])}"
        case None:
            return "any"
        case plain:
            return str(plain)


if __name__ == "__main__":
    sys.stdout.write(format_page())
