"""`dataclass` and `replace` as in the standard library, without their price at start and in loops.

The standard decorator compiles six methods for every class, which is half of the time of a cold
start: hundreds of classes are defined and most are never made. Here the methods that only walk the
fields are shared, and `__init__` is compiled when the first instance is made. Fields, equality,
hash, text, pickles, inheritance and errors are those of the standard library, and its `fields`,
`asdict` and `is_dataclass` work as usual. What is not supported here (order, InitVar) is left to
the standard decorator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # type checkers know the originals
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace

_FIELDS = "__dataclass_fields__"
_FIELD = dataclasses._FIELD  # type: ignore[attr-defined]
# From this many fields on, an open twin of a frozen class is filled faster than field by field.
_FOR_A_TWIN = 6
_set = object.__setattr__
_make = object.__new__
_copiers: dict[type, Callable[[Any], Any]] = {}


def _decorator(kind: type | None = None, /, **options: bool) -> Any:
    """The decorator, with or without options."""
    if kind is None:
        return lambda given: _built(given, **options)
    return _built(kind, **options)


def _replaced(record: Any, /, **changes: Any) -> Any:
    """A copy with other values."""
    kind = record.__class__
    copier = _copiers.get(kind)
    if copier is None:
        copier = _copiers[kind] = _copier(kind)
    copy = copier(record)
    if copy is None:
        return dataclasses.replace(record, **changes)
    try:
        for name, value in changes.items():
            setattr(copy, name, value)
    except AttributeError:
        return dataclasses.replace(record, **changes)  # whose error names the field
    copy.__class__ = kind
    return copy


if not TYPE_CHECKING:
    dataclass, replace = _decorator, _replaced


# The class.


def _built(
    kind: type,
    *,
    repr: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    **others: bool,
) -> type:
    made: type
    own = _own_fields(kind, kw_only)
    if others or own is None:
        given = {"repr": repr, "eq": eq, "frozen": frozen, "slots": slots, "kw_only": kw_only}
        made = dataclasses.dataclass(**given, **others)(kind)
        return made
    inherited: dict[str, Field[Any]] = {}
    for base in kind.__mro__[-1:0:-1]:
        inherited |= base.__dict__.get(_FIELDS, {})
    known = inherited | {field.name: field for field in own}
    record: Any = _with_slots(kind, known) if slots else kind
    setattr(record, _FIELDS, known)
    flags = {"init": True, "repr": repr, "eq": eq, "order": False, "unsafe_hash": False}
    record.__dataclass_params__ = SimpleNamespace(**flags, frozen=frozen)
    _add_methods(record, known, repr, eq, frozen)
    if frozen and slots and "__getstate__" not in record.__dict__:
        record.__getstate__, record.__setstate__ = _state, _with_state
    record.__init__ = _LateInit(record, frozen, slots)
    made = record
    return made


def _own_fields(kind: type, kw_only: bool) -> list[Field[Any]] | None:
    """The fields that a class adds; None where only the standard library will do."""
    found: list[Field[Any]] = []
    namespace = kind.__dict__
    for name, told in namespace.get("__annotations__", {}).items():
        if not isinstance(told, str) or told.startswith(("InitVar", "KW_ONLY", "dataclasses.")):
            return None
        if told.startswith(("ClassVar", "typing.")):
            continue
        default = namespace.get(name, MISSING)
        field: Field[Any]
        if isinstance(default, Field):
            field = default
            if field.default is MISSING:
                delattr(kind, name)
            else:
                setattr(kind, name, field.default)
        else:
            field = (
                dataclasses.field() if default is MISSING else dataclasses.field(default=default)
            )
        if field.default.__class__.__hash__ is None:
            wrong = f"mutable default {type(field.default)} for field {name} is not allowed"
            raise ValueError(f"{wrong}: use default_factory")
        field.name, field.type = name, told
        field._field_type = _FIELD  # type: ignore[attr-defined]
        if field.kw_only is MISSING:
            field.kw_only = kw_only
        found.append(field)
    return found


def _with_slots(kind: type, fields: dict[str, Field[Any]]) -> type:
    """The class again: slots have to be known when it is made."""
    namespace = dict(kind.__dict__)
    above = {slot for base in kind.__mro__[1:-1] for slot in _slots_of(base)}
    namespace["__slots__"] = tuple(name for name in fields if name not in above)
    for name in fields:
        namespace.pop(name, None)
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    made = type(kind)(kind.__name__, kind.__bases__, namespace)
    made.__qualname__ = kind.__qualname__
    return made


def _slots_of(base: type) -> tuple[str, ...]:
    slots = base.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _add_methods(
    kind: Any, fields: dict[str, Field[Any]], repr: bool, eq: bool, frozen: bool
) -> None:
    namespace = kind.__dict__
    shown = tuple(field.name for field in fields.values() if field.repr)
    compared = tuple(field.name for field in fields.values() if field.compare)
    hashed = tuple(f.name for f in fields.values() if (f.compare if f.hash is None else f.hash))
    if "__match_args__" not in namespace:
        positional = (f.name for f in fields.values() if f.init and not f.kw_only)
        kind.__match_args__ = tuple(positional)  # type: ignore[misc]
    if repr and "__repr__" not in namespace:
        kind.__repr__ = _named(kind, "__repr__", _text_of(shown))
    # `__hash__` is None in a class that defines `__eq__` alone.
    own_hash = namespace.get("__hash__", MISSING)
    plain_hash = own_hash is MISSING or (own_hash is None and "__eq__" in namespace)
    if eq and "__eq__" not in namespace:
        kind.__eq__ = _named(kind, "__eq__", _equality(compared))
    if eq and plain_hash:
        kind.__hash__ = _named(kind, "__hash__", _hash_of(hashed)) if frozen else None
    if frozen:
        if "__setattr__" in namespace or "__delattr__" in namespace:
            raise TypeError(f"a frozen {kind.__name__} cannot define how attributes are set")
        setting, deleting = _frozen(kind, frozenset(fields))
        kind.__setattr__ = _named(kind, "__setattr__", setting)
        kind.__delattr__ = _named(kind, "__delattr__", deleting)


def _named(kind: type, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    method.__name__ = name
    method.__qualname__ = f"{kind.__qualname__}.{name}"
    return method


def _text_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    @recursive_repr()
    def text(self: Any) -> str:
        told = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({told})"

    return text


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _equality(names: tuple[str, ...]) -> Callable[[Any, object], Any]:
    values = _values_of(names)

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return equal


def _hash_of(names: tuple[str, ...]) -> Callable[[Any], int]:
    values = _values_of(names)
    return lambda record: hash(values(record))


def _frozen(
    kind: Any, names: frozenset[str]
) -> tuple[Callable[[Any, str, Any], None], Callable[[Any, str], None]]:
    def setting(self: Any, name: str, value: Any) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    def deleting(self: Any, name: str) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    return setting, deleting


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _with_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _FIELDS), state, strict=True):
        _set(self, name, value)


# `__init__`, compiled when it is first looked up.


class _LateInit:
    """Stands for a method that is not compiled yet."""

    def __init__(self, kind: Any, frozen: bool, slots: bool) -> None:
        self.kind, self.frozen, self.slots = kind, frozen, slots

    def __get__(self, record: Any, owner: type | None = None) -> Any:
        made = _init(self.kind, self.frozen, self.slots)
        if self.kind.__dict__.get("__init__") is self:
            self.kind.__init__ = made
        return made if record is None else made.__get__(record, owner)


def _init(kind: type, frozen: bool, slots: bool) -> FunctionType:
    fields: dict[str, Field[Any]] = getattr(kind, _FIELDS)
    known: dict[str, Any] = {"_set": _set, "_new": MISSING, "_kind": kind}
    made = [field for field in fields.values() if field.init or _has_default(field)]
    values = [(field.name, _value(field, known)) for field in made]
    twin = _twin(kind) if frozen and slots and len(values) >= _FOR_A_TWIN else None
    if not frozen:
        body = [f"self.{name} = {value}" for name, value in values]
    elif twin is not None:
        body = _through_twin(values, known, twin)
    else:
        body = [f"{_setter(kind, name, known)}, {value})" for name, value in values]
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def __init__({_parameters(fields, known)}):\n " + "\n ".join(body or ["pass"])
    exec(text, known)
    init: FunctionType = known.pop("__init__")
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    init.__module__ = kind.__module__
    init.__annotations__ = {f.name: f.type for f in fields.values() if f.init} | {"return": None}
    return init


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _parameters(fields: dict[str, Field[Any]], known: dict[str, Any]) -> str:
    given = [field for field in fields.values() if field.init]
    plain = [_parameter(field, known) for field in given if not field.kw_only]
    named = [_parameter(field, known) for field in given if field.kw_only]
    return ", ".join(["self", *plain, *(["*", *named] if named else [])])


def _parameter(field: Field[Any], known: dict[str, Any]) -> str:
    if not _has_default(field):
        return field.name
    if field.default_factory is not MISSING:
        return f"{field.name}=_new"
    known[f"_default_{field.name}"] = field.default
    return f"{field.name}=_default_{field.name}"


def _value(field: Field[Any], known: dict[str, Any]) -> str:
    name = field.name
    if field.default_factory is not MISSING:
        known[f"_make_{name}"] = field.default_factory
        fresh = f"_make_{name}()"
        return f"{fresh} if {name} is _new else {name}" if field.init else fresh
    if field.init:
        return name
    known[f"_default_{name}"] = field.default
    return f"_default_{name}"


def _setter(kind: type, name: str, known: dict[str, Any]) -> str:
    """The start of a call that sets a field of a frozen record; a slot's own is the quickest."""
    slot: Any = getattr(kind, name, None)
    if type(slot).__name__ != "member_descriptor":
        return f"_set(self, {name!r}"
    known[f"_set_{name}"] = slot.__set__
    return f"_set_{name}(self"


# Twins: classes of the same layout whose attributes may be set.


def _twin(kind: Any) -> type | None:
    """The twin of a frozen class with slots; None where Python does not let it stand in."""
    metaclass: object = kind.__class__
    if metaclass is not type:
        return None
    open_ = {"__slots__": kind.__slots__, "__setattr__": _set}
    try:
        twin: Any = type(kind.__name__, (kind.__base__,), open_)  # a plain Generic refuses
        instance: Any = _make(twin)
        instance.__class__ = kind
    except TypeError:
        return None
    made: type = twin
    return made


def _through_twin(values: list[tuple[str, str]], known: dict[str, Any], twin: type) -> list[str]:
    """An instance of a class that was derived without the decorator has another layout."""
    known["_twin"], known["_plainly"] = twin, _plainly
    lines = [f"{name} = {value}" for name, value in values if name != value]
    every = ", ".join(name for name, _ in values)
    lines += [
        "if self.__class__ is _kind:",
        "    _set(self, '__class__', _twin)",
        *(f"    self.{name} = {name}" for name, _ in values),
        "    self.__class__ = _kind",
        f"else: _plainly(self, {tuple(name for name, _ in values)!r}, ({every},))",
    ]
    return lines


def _plainly(record: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        _set(record, name, value)


def _copier(kind: type) -> Callable[[Any], Any]:
    """Copies a record into an open twin; None where `replace` has to go through `__init__`."""
    fields = kind.__dict__.get(_FIELDS)
    params: Any = getattr(kind, "__dataclass_params__", None)
    late = isinstance(params, SimpleNamespace) and "__slots__" in kind.__dict__
    if not fields or not late or not params.frozen or hasattr(kind, "__post_init__"):
        return lambda record: None
    twin = _twin(kind) if all(field.init for field in fields.values()) else None
    if twin is None:
        return lambda record: None
    known: dict[str, Any] = {"_make": _make, "_twin": twin}
    lines = (f" copy.{name} = record.{name}" for name in fields)
    exec("def copied(record):\n copy = _make(_twin)\n" + "\n".join(lines) + "\n return copy", known)
    made: Callable[[Any], Any] = known["copied"]
    return made
