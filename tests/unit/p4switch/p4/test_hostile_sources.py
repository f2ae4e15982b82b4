"""Sources not written for the compiler: other files, copied pages, a few lines that request billions."""

import pytest

from p4switch.p4.compile import compile_file, compile_text
from tests.support.frontend.mistakes import PROGRAM

DEEP = 40
"""Lines of a source in which each line names the previous line's declaration twice."""


def told(text):
    """Return the first error and its line as shown."""
    found = compile_text(text, "student.p4")
    return found.diagnostics.errors[0].render(found.sources)


def with_declarations(first, following, use):
    lines = [first, *(following.format(number + 1, number) for number in range(DEEP))]
    return PROGRAM.replace("struct headers_t", "\n".join(lines) + "\nstruct headers_t").replace("route.apply();", use)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            with_declarations("struct s0 { bit<8> x; }", "struct s{0} {{ s{1} x; s{1} y; }}", "s40 z;"),
            "more than 100,000 variables",
        ),
        (with_declarations("typedef tuple<bool, bool> t0;", "typedef tuple<t{1}, t{1}> t{0};", "t40 z;"), "100,000"),
        (with_declarations("const int c0 = 9999999999;", "const int c{0} = c{1} * c{1};", ""), "1,048,576 bits"),
        (
            with_declarations(
                "bit<8> f0(bit<8> x) { return x; }",
                "bit<8> f{0}(bit<8> x) {{ return f{1}(f{1}(x)); }}",
                "meta.hops = f40(1);",
            ),
            "more than 20,000 calls",
        ),
    ],
    ids=["structs", "tuples", "numbers", "calls"],
)
def test_a_few_lines_do_not_ask_for_more_than_there_is(text, says):
    assert says in told(text)


def test_files_that_include_the_next_one_twice(tmp_path):
    for number in range(DEEP):
        (tmp_path / f"{number}.p4").write_text(f'#include "{number + 1}.p4"\n' * 2)
    (tmp_path / f"{DEEP}.p4").write_text("")
    assert "more than 10,000 files are included" in compile_file(tmp_path / "0.p4").messages()[0]


@pytest.mark.parametrize("name", ["a" * 5000, "folder", "."])
def test_what_cannot_be_included(name, tmp_path):
    (tmp_path / "folder").mkdir()
    source = tmp_path / "student.p4"
    source.write_text(f'#include "{name}"\n')
    assert "cannot find" in compile_file(source).messages()[0]


@pytest.mark.parametrize("data", [b"\x7fELF\x00\x01", PROGRAM.encode("utf-16")], ids=["binary", "utf-16"])
def test_a_file_that_is_no_text(data, tmp_path):
    source = tmp_path / "student.p4"
    source.write_bytes(data)
    found = compile_file(source, name="student.p4")
    assert found.messages() == [
        "student.p4:1:1: error: student.p4 is no text in UTF-8\n  Save it as UTF-8; or is it another file?"
    ]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old mac"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "marked"])
def test_what_editors_make_of_ends_of_lines_and_of_the_beginning(ends, mark, tmp_path):
    source = tmp_path / "student.p4"
    source.write_bytes(mark + PROGRAM.replace("\n", ends).encode())
    assert compile_file(source).ok


@pytest.mark.parametrize("character", ["\u00a0", "\u201c", "\u2013", "\u00f6"])
def test_characters_that_p4_does_not_have(character):
    """Characters copied from a page, or of another alphabet; they are allowed in comments."""
    assert "is no character of P4" in told(PROGRAM.replace("struct headers_t", f"struct {character}headers_t"))
    assert compile_text(PROGRAM.replace("struct headers_t", f"// {character}\nstruct headers_t")).ok


def test_an_empty_file_is_named():
    assert told("").startswith("student.p4:1:1: error: the program has no 'main'")


def test_long_lines_are_cut_around_the_place():
    text = PROGRAM.replace("\n", " ").replace("#include <core.p4> #include <v1model.p4>", "")
    text = f"#include <core.p4>\n#include <v1model.p4>\n{text.replace('meta.seen == 0', 'meta.sen == 0')}"
    _, line, mark, *_ = told(text).split("\n")
    assert len(line) < 260
    assert line[mark.index("^") :].startswith("sen == 0") or line[mark.index("^") :].startswith("meta.sen")


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in told("\x1b[2J" + PROGRAM)
    assert len(told("x" * 100_000)) < 2000


def test_a_key_of_a_header_that_not_every_packet_has():
    """A table that also matches on the header's validity is intentional."""
    text = PROGRAM.replace("if (hdr.ipv4.isValid()) {", "if (true) {").replace("meta.hops = hdr.ipv4.ttl;", "")
    says = "the header 'ipv4' may be invalid here"
    assert says in [w.message for w in compile_text(text).diagnostics.warnings]
    both = text.replace("key = { hdr.ipv4.dst: lpm; }", "key = { hdr.ipv4.isValid(): exact; hdr.ipv4.dst: lpm; }")
    assert says not in [w.message for w in compile_text(both).diagnostics.warnings]
