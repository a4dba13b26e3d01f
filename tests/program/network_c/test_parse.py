"""Generated C as values: numbers, casts, addresses, structs, switch rows, comments."""

from __future__ import annotations

import pytest

from npuscope.errors import FileError
from npuscope.program.network_c.c_values import Macro, Struct, Sum, Value
from npuscope.program.network_c.parse_source import CallLine, Comment, Declaration, parse_source


def value_of(text: str) -> Value:
    source = parse_source(f"void f(void) {{ static const int x = {text}; }}", "here")
    (statement,) = source.functions["f"].statements
    assert isinstance(statement, Declaration)
    return statement.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("0x342e0000UL", 0x342E0000),
        ("1.5f", 1.5),
        ("1e-3", 0.001),
        ("(short)56332", -9204),
        ("(signed char)200", -56),
        ("(unsigned char)200", 200),
        ("0x71000000UL + 366544", 0x710597D0),
        ("((unsigned char *)(TRANSLATED(0x71000000UL + 16)))", 0x71000010),
        ("{(unsigned char *)(0x10UL) /* the same */}", [16]),
        ("{8, 16, 32}", [8, 16, 32]),
        ("{ }", []),
        ("NULL", "NULL"),
        ('"a name"', "a name"),
        ("&tensors[0]", "tensors"),
        ("A_flag | B_flag", Sum(("A_flag", "B_flag"))),
        ("base + 64", Sum(("base",), 64)),
        ("PORT(S, 0, STRENG, 1, 0)", Macro("PORT", ("S", 0, "STRENG", 1, 0))),
        ("(1 << 3) | 1", 9),
        ("2 + 3 * 4", 14),
        ("10 - 4 - 3", 3),
        ("~0 & 0xff", 255),
        ("(7 / 2) % 2", 1),
        ("false ? 1 : 2 > 1 ? 3 : 4", 3),
        ("X ? 1 : 2", Macro("?:", ("X", 1, 2))),
        ("A | (X ? B : C)", Sum(("A",), 0, (Macro("?:", ("X", "B", "C")),))),
        ("(my_type_t *)0x10UL + 4", 20),
        ("(my_type_t)5", 5),
        ("base - 4 + (other + 1)", Sum(("base", "other"), -3)),
        ("(const uint8_t[]) {1, 2}", [1, 2]),
        ("&(T) {.a = 1, .b = (U) {.c = 2}}", Struct({"a": 1, "b": Struct({"c": 2})})),
    ],
)
def test_values(text: str, value: Value) -> None:
    assert value_of(text) == value


def test_structs_keep_the_comment_behind_a_field() -> None:
    found = value_of("{ .a = 1, .b.c = {2} /* inside */, /* behind */ .d = 3, MACRO(0) = 4, }")
    assert found == Struct({"a": 1, "b.c": [2], "d": 3, "MACRO(0)": 4}, {"b.c": "behind"})


def test_functions_in_order() -> None:
    text = """
    /* pools */
    #define X 1
    static void first(int a) {
      /* kind=Conv node=n */
      static const T one = { .x = 1 };
      go(3, &one);
      if (a) { other(); }
    }
    int second(void) { return 1; }
    """
    source = parse_source(text, "here")
    assert source.comments == ["pools"]
    assert list(source.functions) == ["first", "second"]
    assert source.functions["first"].statements == [
        Comment("kind=Conv node=n"),
        Declaration("static const T", "one", Struct({"x": 1})),
        CallLine("go", (3, "one")),
        CallLine("other", ()),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "void f(void) {",
        "}",
        "void f(void) { int x = ; }",
        "void f(void) { int x = {1, ",
        "void f(void) { g(1",
        "/* open",
        '"open',
        "void f(void) { int x = " + "{" * 200 + "1" + "}" * 200 + "; }",
        "void f(void) { int x = 1 + ; }",
        "void f(void) { int x = " + "9" * 60 + "; }",
        "\\ @ `",
        "void f(void) { int x = 1 ? 2; }",
        "void f(void) { int x = " + "(" * 200 + "1" + ")" * 200 + "; }",
        "void f(void) { if (a",
    ],
)
def test_broken_text_says_where(text: str) -> None:
    with pytest.raises(FileError, match=r"here:\d+:\d+: .* at offset \d+"):
        parse_source(text, "here")


def test_words_with_a_value_keep_the_offsets_of_the_text() -> None:
    source = parse_source("void f(void) { int x = base + 1; }", "here", {"base": 0x100})
    assert source.functions["f"].declared["x"].value == 0x101
    with pytest.raises(FileError, match="here:1:31: a term is missing at offset 30"):
        parse_source("void f(void) { int x = base + + ; }", "here", {"base": 1 << 40})


@pytest.mark.parametrize("text", ["a * b", "-a", "a - b", "1 << 99", "1 % 0", "1.5 | 2", "a b"])
def test_values_of_other_forms_wait_until_they_are_used(text: str) -> None:
    source = parse_source(f"void f(void) {{ int x = {text}; int y = 2; }}", "here")
    declared = source.functions["f"].declared
    assert declared["y"].value == 2
    with pytest.raises(FileError, match=r"here:1:\d+: .* at offset \d+") as caught:
        _ = declared["x"].value
    assert caught.value.hint.startswith("npuscope does not know this form of C")
    assert len(source.functions["f"].skipped()) == 1


def test_what_stands_behind_a_condition_is_read() -> None:
    text = "void f(void) { if (a % 2) go(1); else stop(2); for (i = 0; i < 3; i++) turn(3); }"
    names = [s.name for s in parse_source(text, "here").functions["f"].statements]
    assert names == ["go", "stop", "turn"]
