"""Geometries as plain trees, an encoder of WKB that shares nothing with ours, strategies."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hypothesis import strategies as st

Vertex = tuple[float, ...]
NAN = float("nan")


@dataclass(frozen=True)
class Shape:
    """A geometry: `vertices` of a point or line, `rings` of a polygon, else `parts`."""

    kind: int
    dimensions: int = 0
    vertices: tuple[Vertex, ...] = ()
    rings: tuple[tuple[Vertex, ...], ...] = ()
    parts: tuple["Shape", ...] = ()


@dataclass(frozen=True)
class Dialect:
    """How one geometry of a tree is written."""

    big: bool = False
    iso: bool = True
    srid: int | None = None


ISO = Dialect()


def encode(shape: Shape, dialects: Callable[[], Dialect] = lambda: ISO) -> bytes:
    """Write a tree, asking for the dialect of each geometry in it."""
    dialect = dialects()
    order = ">" if dialect.big else "<"
    word = shape.kind
    if dialect.iso:
        word += 1000 * shape.dimensions
    else:
        word |= (shape.dimensions & 1) << 31 | (shape.dimensions >> 1) << 30
    if dialect.srid is not None:
        word |= 0x20000000
    out = [bytes([not dialect.big]), struct.pack(order + "I", word)]
    if dialect.srid is not None:
        out.append(struct.pack(order + "i", dialect.srid))

    def write_count(count: int) -> None:
        out.append(struct.pack(order + "I", count))

    def write_vertices(vertices: tuple[Vertex, ...]) -> None:
        out.extend(struct.pack(order + "d" * len(vertex), *vertex) for vertex in vertices)

    if shape.kind == 1:
        write_vertices(shape.vertices)
    elif shape.kind in (2, 8):
        write_count(len(shape.vertices))
        write_vertices(shape.vertices)
    elif shape.kind in (3, 17):
        write_count(len(shape.rings))
        for ring in shape.rings:
            write_count(len(ring))
            write_vertices(ring)
    else:
        write_count(len(shape.parts))
        out.extend(encode(part, dialects) for part in shape.parts)
    return b"".join(out)


def with_srid(shape: Shape, srid: int, base: Dialect = ISO) -> bytes:
    """Write a tree whose outermost geometry alone has an SRID."""
    given = iter([replace(base, srid=srid)])
    return encode(shape, lambda: next(given, base))


def vertices_of(shape: Shape) -> Iterator[Vertex]:
    yield from shape.vertices
    for ring in shape.rings:
        yield from ring
    for part in shape.parts:
        yield from vertices_of(part)


def kinds_of(shape: Shape) -> Iterator[int]:
    yield shape.kind
    for part in shape.parts:
        yield from kinds_of(part)


numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)
numbers_or_nan = st.one_of(numbers, st.just(NAN))
dialects = st.builds(
    Dialect,
    big=st.booleans(),
    iso=st.booleans(),
    srid=st.one_of(st.none(), st.sampled_from([0, 4326, -1, 2**31 - 1])),
)
quiet_dialects = st.builds(Dialect, big=st.booleans(), iso=st.booleans(), srid=st.none())


def _vertices(
    dimensions: int, values: st.SearchStrategy[float], least: int = 0
) -> st.SearchStrategy[tuple[Vertex, ...]]:
    width = 2 + (dimensions & 1) + (dimensions >> 1)
    return st.lists(st.tuples(*[values] * width), min_size=least, max_size=5).map(tuple)


def _empty_point(dimensions: int) -> Shape:
    width = 2 + (dimensions & 1) + (dimensions >> 1)
    return Shape(1, dimensions, vertices=((NAN,) * width,))


@st.composite
def shapes(draw: st.DrawFn, *, curves: bool = False, depth: int = 2) -> Shape:
    """Any geometry that WKB can say, sound or not as geometry goes."""
    dimensions = draw(st.integers(0, 3))
    kinds = [1, 2, 3, 4, 5, 6, 7] + ([8, 9, 10, 11, 12, 15, 16, 17] if curves else [])
    return draw(_of_kind(draw(st.sampled_from(kinds)), dimensions, depth))


@st.composite
def _of_kind(draw: st.DrawFn, kind: int, dimensions: int, depth: int) -> Shape:
    if kind == 1:
        if draw(st.integers(0, 4)) == 0:
            return _empty_point(dimensions)
        width = 2 + (dimensions & 1) + (dimensions >> 1)
        return Shape(1, dimensions, vertices=(draw(st.tuples(*[numbers_or_nan] * width)),))
    if kind in (2, 8):
        return Shape(kind, dimensions, vertices=draw(_vertices(dimensions, numbers_or_nan)))
    if kind in (3, 17):
        rings = st.lists(_vertices(dimensions, numbers_or_nan), max_size=3)
        return Shape(kind, dimensions, rings=tuple(draw(rings)))
    part = {4: 1, 5: 2, 6: 3, 15: 3, 16: 17}.get(kind)
    if part is not None:
        parts = st.lists(_of_kind(part, dimensions, 0), max_size=4)
    elif depth == 0:
        parts = st.just([])
    else:
        among = [1, 2, 4] if kind == 7 else [2, 8]
        deeper = st.sampled_from([*among, kind]).flatmap(
            lambda inner: _of_kind(inner, dimensions, depth - 1)
        )
        parts = st.lists(deeper, max_size=3)
    return Shape(kind, dimensions, parts=tuple(draw(parts)))


@st.composite
def sound_shapes(draw: st.DrawFn, *, dimensions: tuple[int, ...] = (0, 1, 2, 3)) -> Shape:
    """Geometries that GEOS reads too: closed rings, real lines, no NaN, no empty parts."""
    chosen = draw(st.sampled_from(dimensions))
    return draw(_sound_of_kind(draw(st.integers(1, 7)), chosen, 1))


@st.composite
def _sound_of_kind(draw: st.DrawFn, kind: int, dimensions: int, depth: int) -> Shape:
    if kind == 1:
        (vertex,) = draw(_vertices(dimensions, numbers, 1).map(lambda found: found[:1]))
        return Shape(1, dimensions, vertices=(vertex,))
    if kind == 2:
        return Shape(2, dimensions, vertices=draw(_vertices(dimensions, numbers, 2)))
    if kind == 3:
        ring = _vertices(dimensions, numbers, 3).map(lambda found: (*found, found[0]))
        return Shape(3, dimensions, rings=tuple(draw(st.lists(ring, min_size=1, max_size=3))))
    among = [kind - 3] if kind < 7 else ([1, 2, 3, 6] + [7] * depth)
    part = st.sampled_from(among).flatmap(
        lambda inner: _sound_of_kind(inner, dimensions, depth - 1)
    )
    return Shape(kind, dimensions, parts=tuple(draw(st.lists(part, min_size=1, max_size=3))))
