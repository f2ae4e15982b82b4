"""Rates of planted copies that likeness finds, and of other pairs that it takes for copies: ``make labs-likeness``.

Copies are correct solutions in all styles, disguised: names, order of operands, statements without effect, comments,
spaces and numbers. No code of the product's likeness is used. Others are solutions in different styles, disguised, too.
"""

import argparse
import ast
import itertools
import random
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from p4reduce_course.catalogue import NAMES, find
from p4reduce_course.frame.likeness import digest
from tests.support.labs import SOLUTIONS
from tests.support.labs.soak import styles

Random = random.Random


# Python.


class _Names(ast.NodeTransformer):
    """Renames everything that a file defines itself, but for what graders call."""

    def __init__(self, tree: ast.Module, draw: Random) -> None:
        called = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        methods = {inner.name for node in tree.body if isinstance(node, ast.ClassDef) for inner in node.body
                   if isinstance(inner, ast.FunctionDef)}  # fmt: skip
        stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        given = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} - {"self"}
        keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
        own = sorted((stored | given) - called - methods - keywords)
        draw.shuffle(own)
        self.names = {name: f"{draw.choice(['a', 'my', 'the'])}_{place}" for place, name in enumerate(own)}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.names.get(node.arg, node.arg)
        return node


_SWAPPED = (ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor, ast.Add)


def python(text: str, draw: Random) -> str:
    tree = _Names(module := ast.parse(text), draw).visit(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, _SWAPPED) and draw.random() < 0.5:
            node.left, node.right = node.right, node.left
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and draw.random() < 0.5:
            if isinstance(node.ops[0], ast.Eq | ast.NotEq):
                node.left, node.comparators = node.comparators[0], [node.left]
        elif isinstance(node, ast.BoolOp) and draw.random() < 0.3:
            draw.shuffle(node.values)
        body = getattr(node, "body", None)
        if isinstance(body, list) and isinstance(node, ast.stmt) and draw.random() < 0.4:
            idle = f"idle_{draw.randrange(9)}"
            said = draw.choice([f"{idle} = {draw.randrange(99)}", "pass", f"{idle}: int = 3", "7", f"{idle} = [1, 2]", "if False:\n    pass",
                                f"{idle} = 2\n{idle} = {idle}", f"{idle} = 1\n{idle} += 1"])  # fmt: skip
            place = draw.randrange(len(body) + (not isinstance(body[-1], ast.Return | ast.Raise)))
            body[place:place] = ast.parse(said).body
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and draw.random() < 0.3:
            node.value += draw.randrange(1, 9)
    return f"# {draw.random()}\n" + ast.unparse(ast.fix_missing_locations(tree)).replace(
        "    ", draw.choice(["  ", "    "])
    )


# P4.


_ATOM = r"(?:\((?:bit<\d+>)\))?[\w.]+(?:\(\))?(?:\[\d+:\d+\])?"
_CHAIN = re.compile(rf"(?<=[(=,]) ?({_ATOM}(?: (?P<op>&&|\|\||[&|^+]) {_ATOM})(?: (?P=op) {_ATOM})*)(?=[;),])")
_EQUAL = re.compile(rf"(?<=\()({_ATOM}) (==|!=) ({_ATOM})(?=\))|(?<=\()({_ATOM}) (==|!=) ({_ATOM})(?= (?:&&|\|\|))")


def p4(text: str, draw: Random) -> str:
    text = re.sub(r"//[^\n]*", "", text)
    own = set(re.findall(r"^    +bit<\d+> (\w+)(?: = [^;]*)?;", text, re.M)) | set(
        re.findall(r"\bstate (?!start)(\w+)", text)
    )
    own |= set(re.findall(r"\b(?:control|parser) (\w+)\(", text))
    fields = set(re.findall(r"\w+", " ".join(re.findall(r"\b(?:header|struct) \w+ \{([^}]*)\}", text))))
    for place, name in enumerate(sorted(own - fields)):
        if draw.random() < 0.8:
            text = re.sub(rf"(?<![.\w]){name}\b(?! *: *exact)", f"{draw.choice(['my', 'x', 'own'])}{place}", text)

    def shuffled(found: re.Match) -> str:
        parts = found[1].split(f" {found['op']} ")
        draw.shuffle(parts)
        return (" " if found[0].startswith(" ") else "") + f" {found['op']} ".join(parts)

    text = _CHAIN.sub(lambda at: shuffled(at) if draw.random() < 0.6 else at[0], text)
    text = _EQUAL.sub(
        lambda at: f"{at[3] or at[6]} {at[2] or at[5]} {at[1] or at[4]}" if draw.random() < 0.5 else at[0], text
    )
    lines = text.splitlines()
    for place in reversed(range(len(lines))):
        if re.match(r"\s+apply \{$", lines[place]) and draw.random() < 0.8:
            idle = f"idle{draw.randrange(99)}"
            said = draw.choice([f"bit<8> {idle} = 7;", f"bit<8> {idle};\n{idle} = 3;\n{idle} = {idle} + 1;", "{ }", ";", "if (false) { }",
                                f"bool {idle} = true;\nif ({idle}) {{ }}"])  # fmt: skip
            lines.insert(place + 1, said)
        elif re.match(r"\s+[\w.]+ = [^;]*;$", lines[place]) and draw.random() < 0.1:
            lines.insert(place, re.sub(r"(\s+)([\w.]+) = .*", r"\1\2 = \2;", lines[place]))
    text = "\n".join(lines)
    text = re.sub(
        r"(= \d*w?)(0x[0-9a-f]+|\d+)(?=;)",
        lambda at: at[0] if draw.random() < 0.5 else f"{at[1]}{draw.randrange(1, 99)}",
        text,
    )
    return draw.choice([text, re.sub(r"\n+", "\n", text), text.replace("{", "\n{"), f"/* {draw.random()} */ {text}"])


# Counting.


def disguised(folder: Path, target: Path, files: tuple[str, ...], draw: Random) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    for name in files:
        text = (folder / name).read_text()
        (target / name).write_text({"py": python, "p4": p4}[name.rpartition(".")[2]](text, draw))
    return target


def counted(number: str, copies: int, seed: int, missed: Path | None = None) -> tuple[int, int, int, int]:
    """Copies that were found, copies, pairs of others that were taken for copies, and such pairs."""
    draw, files = Random(f"likeness {number} {seed}"), find(number).files
    sources = [SOLUTIONS / number, *styles(number)]
    found, planted, digests = 0, 0, []
    with tempfile.TemporaryDirectory() as held:
        for source in sources:
            whole = digest(source, files)
            copied = [disguised(source, Path(held) / f"{source.name}-{place}", files, draw) for place in range(copies)]
            prints = [digest(copy, files) for copy in copied]
            for copy, one in zip(copied, prints, strict=True):
                if one != whole and missed is not None:
                    copy.rename(missed / f"{number}-{copy.name}")
            found += prints.count(whole)
            planted += copies
            digests.append([whole, *prints])
    pairs = [one == other for a, b in itertools.combinations(digests, 2) for one in a for other in b]
    return found, planted, sum(pairs), len(pairs)


def main() -> int:
    """Exit code 1 where a bar is missed: 95 % of copies, 2 % of others."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=40, help="copies of each solution in each style")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--missed", type=Path, help="folder in which to keep copies that were not found")
    options = parser.parse_args()
    if options.missed:
        options.missed.mkdir(parents=True, exist_ok=True)
    total = Counter[str]()
    for number in NAMES:
        if find(number).alike:
            continue
        found, planted, taken, pairs = counted(number, options.copies, options.seed, options.missed)
        kind = " and ".join(sorted({name.rpartition(".")[2] for name in find(number).files}))
        print(
            f"lab {number} ({kind}): {found} of {planted} copies found, {taken} of {pairs} pairs of others taken for copies"
        )
        total += Counter(found=found, planted=planted, taken=taken, pairs=pairs)
    found, wrong = total["found"] / total["planted"], total["taken"] / total["pairs"]
    print(
        f"{100 * found:.1f} % of {total['planted']} copies found; {100 * wrong:.2f} % of {total['pairs']} other pairs taken for copies"
    )
    return 0 if found >= 0.95 and wrong <= 0.02 else 1


if __name__ == "__main__":
    sys.exit(main())
