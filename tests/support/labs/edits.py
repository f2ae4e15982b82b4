"""Random edits of right solutions: one or two places of the Python, P4 or YAML that a student hands in."""

import ast
import copy
import random
import re
from pathlib import Path

import yaml as yaml_files

from p4reduce_course.catalogue import find
from p4switch.p4.compile import compile_text

Random = random.Random

# Python: the syntax tree with one node changed.

_COMPARE = [ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.In, ast.NotIn]
_BINARY = [ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.BitOr, ast.BitAnd, ast.LShift, ast.RShift]


def python(text: str, draw: Random) -> str:
    """The text with one change that still parses; the same text where none was found."""
    for _ in range(30):
        tree = ast.parse(text)
        if _EDITS[draw.randrange(len(_EDITS))](tree, draw):
            return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return text


def _nodes(tree: ast.AST, *kinds: type) -> list:
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def _other_operator(tree: ast.AST, draw: Random) -> bool:
    found = _nodes(tree, ast.BinOp, ast.AugAssign)
    if not found:
        return False
    node = draw.choice(found)
    node.op = draw.choice([kind for kind in _BINARY if not isinstance(node.op, kind)])()
    return True


def _other_comparison(tree: ast.AST, draw: Random) -> bool:
    found = _nodes(tree, ast.Compare)
    if not found:
        return False
    node = draw.choice(found)
    place = draw.randrange(len(node.ops))
    node.ops[place] = draw.choice([kind for kind in _COMPARE if not isinstance(node.ops[place], kind)])()
    return True


def _other_constant(tree: ast.AST, draw: Random) -> bool:
    found = [one for one in _nodes(tree, ast.Constant) if isinstance(one.value, int | float | str)]
    if not found:
        return False
    node = draw.choice(found)
    if isinstance(node.value, str):
        others = sorted({one.value for one in found if isinstance(one.value, str)} - {node.value})
        if not others:
            return False
        node.value = draw.choice(others)
    elif isinstance(node.value, bool):
        node.value = not node.value
    else:
        node.value = draw.choice([node.value + 1, node.value - 1, 0, 2 * node.value, node.value + 2])
    return True


def _other_name(tree: ast.AST, draw: Random) -> bool:
    functions = _nodes(tree, ast.FunctionDef)
    if not functions:
        return False
    function = draw.choice(functions)
    loads = [one for one in _nodes(function, ast.Name) if isinstance(one.ctx, ast.Load)]
    names = sorted({one.id for one in _nodes(function, ast.Name)} | {one.arg for one in _nodes(function, ast.arg)})
    if not loads or len(names) < 2:
        return False
    node = draw.choice(loads)
    node.id = draw.choice([name for name in names if name != node.id])
    return True


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    return [
        body
        for node in ast.walk(tree)
        for name in ("body", "orelse", "finalbody")
        if isinstance(body := getattr(node, name, None), list)
        and body
        and not isinstance(node, ast.Module | ast.ClassDef)
    ]


def _no_statement(tree: ast.AST, draw: Random) -> bool:
    bodies = _bodies(tree)
    if not bodies:
        return False
    body = draw.choice(bodies)
    body[draw.randrange(len(body))] = ast.Pass()
    return True


def _statement_twice(tree: ast.AST, draw: Random) -> bool:
    bodies = _bodies(tree)
    if not bodies:
        return False
    body = draw.choice(bodies)
    place = draw.randrange(len(body))
    body.insert(place, copy.deepcopy(body[place]))
    return True


def _statements_swapped(tree: ast.AST, draw: Random) -> bool:
    bodies = [body for body in _bodies(tree) if len(body) > 1]
    if not bodies:
        return False
    body = draw.choice(bodies)
    place = draw.randrange(len(body) - 1)
    body[place], body[place + 1] = body[place + 1], body[place]
    return True


def _negated(tree: ast.AST, draw: Random) -> bool:
    found = _nodes(tree, ast.If, ast.While, ast.IfExp)
    if not found:
        return False
    node = draw.choice(found)
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return True


def _always(tree: ast.AST, draw: Random) -> bool:
    found = _nodes(tree, ast.If, ast.IfExp)
    if not found:
        return False
    draw.choice(found).test = ast.Constant(draw.random() < 0.5)
    return True


def _arguments_swapped(tree: ast.AST, draw: Random) -> bool:
    found = [one for one in _nodes(tree, ast.Call) if len(one.args) > 1]
    if not found:
        return False
    node = draw.choice(found)
    one, two = draw.sample(range(len(node.args)), 2)
    node.args[one], node.args[two] = node.args[two], node.args[one]
    return True


def _operands_swapped(tree: ast.AST, draw: Random) -> bool:
    found = _nodes(tree, ast.BinOp)
    if not found:
        return False
    node = draw.choice(found)
    node.left, node.right = node.right, node.left
    return True


def _no_call(tree: ast.AST, draw: Random) -> bool:
    """f(x) becomes x."""
    found = [one for one in _nodes(tree, ast.Assign, ast.Return) if isinstance(one.value, ast.Call) and one.value.args]
    if not found:
        return False
    node = draw.choice(found)
    node.value = node.value.args[0]
    return True


def _other_and(tree: ast.AST, draw: Random) -> bool:
    found = _nodes(tree, ast.BoolOp)
    if not found:
        return False
    node = draw.choice(found)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return True


def _earlier_return(tree: ast.AST, draw: Random) -> bool:
    bodies = [body for body in _bodies(tree) if len(body) > 1]
    if not bodies:
        return False
    body = draw.choice(bodies)
    body.insert(draw.randrange(1, len(body)), ast.Return(None))
    return True


def _renamed(tree: ast.AST, draw: Random) -> bool:
    """A local variable everywhere in its function: nothing changes."""
    functions = [one for one in _nodes(tree, ast.FunctionDef) if not _nodes(one, ast.Global, ast.Nonlocal, ast.Lambda)]
    draw.shuffle(functions)
    for function in functions:
        stored = {one.id for one in _nodes(function, ast.Name) if isinstance(one.ctx, ast.Store)}
        stored = sorted(stored - {one.arg for one in _nodes(function, ast.arg)})
        if stored:
            old = draw.choice(stored)
            for one in _nodes(function, ast.Name):
                if one.id == old:
                    one.id = f"{old}_of_mine"
            return True
    return False


_EDITS = [
    _other_operator, _other_comparison, _other_constant, _other_constant, _other_name, _other_name, _no_statement,
    _no_statement, _statement_twice, _statements_swapped, _negated, _always, _arguments_swapped, _operands_swapped,
    _no_call, _other_and, _earlier_return, _renamed,
]  # fmt: skip

# P4: the text with one token or statement changed, mostly in what students write.

_TOKEN = re.compile(r"//[^\n]*|\"[^\"]*\"|#[^\n]*|\d+[ws]\w+|0[xb]\w+|\w+|\|\+\||<<|>>|[=!<>]=|&&|\|\||\S|\s+")
_OPERATORS = ["+", "-", "&", "|", "^", "|+|"]
_COMPARISONS = ["==", "!=", "<", ">", "<=", ">="]
_ALIKE = [
    ["lane0", "lane1", "lane2", "lane3", "seq", "kind"],
    ["sums0", "sums1", "sums2", "sums3", "bitmaps", "done"],
    ["slot", "other", "bitmap", "others", "sum", "is_done"],
    ["bit_", "full"],
    ["worker", "seq", "hops", "flags", "kind", "total"],
    ["hop", "value", "ethernet"],
    ["parse_hop", "parse_value", "accept", "reject"],
    ["setValid", "setInvalid", "isValid"],
    ["read", "write"],
    ["egress_spec", "mcast_grp", "ingress_port"],
    ["PUSH", "RESULT"],
    ["4", "5", "8", "16", "32"],
]


def p4(text: str, draw: Random) -> str:
    """The text with one change, which mostly compiles."""
    found = text
    for _ in range(30):
        edit = draw.choice([_p4_token, _p4_token, _p4_token, _p4_statement, _p4_statement])
        found = edit(text, draw)
        if found != text and (draw.random() < 0.1 or compile_text(found, "a.p4", library_only=True).ok):
            return found
    return found


def _p4_token(text: str, draw: Random) -> str:
    tokens = _TOKEN.findall(text)
    places = []
    for place, token in enumerate(tokens):
        for alike in (_OPERATORS, _COMPARISONS, *_ALIKE):
            if token in alike:
                places += [(place, [other for other in alike if other != token])]
        if re.fullmatch(r"\d+", token):
            places.append((place, [str(int(token) + 1), str(max(0, int(token) - 1)), "0"]))
        if token in ("!", "~", "else"):
            places.append((place, [""]))
        if tokens[max(0, place - 2)] == "if" and token.startswith("("):
            places.append((place, ["(!"]))
    if not places:
        return text
    place, options = draw.choice(places)
    tokens[place] = draw.choice(options)
    return "".join(tokens)


def _p4_statement(text: str, draw: Random) -> str:
    """A line that is a statement: away, twice, or behind the next one."""
    lines = text.splitlines(keepends=True)
    begins = max((number for number, line in enumerate(lines) if "state start" in line), default=0)
    places = [n for n, line in enumerate(lines) if n > begins and re.match(r"\s+[^/\s].*;\s*(//.*)?$", line)]
    if not places:
        return text
    place = draw.choice(places)
    match draw.randrange(4):
        case 0 | 1:
            del lines[place]
        case 2:
            lines.insert(place, lines[place])
        case _:
            other = draw.choice(places)
            lines[place], lines[other] = lines[other], lines[place]
    return "".join(lines)


# YAML: a value of an entry.


def yaml(text: str, draw: Random) -> str:
    """The text with another value in one place, or without a line."""
    lines = text.splitlines(keepends=True)
    places = [n for n, line in enumerate(lines) if ":" in line and not line.lstrip().startswith("#")]
    place = draw.choice(places)
    if draw.random() < 0.15:
        del lines[place]
        return "".join(lines)
    line, _, remark = lines[place].partition("#")
    values = list(re.finditer(r"(?<=: )[\w.:]+(?=[,}\s])", line))
    if not values:
        return text
    found = draw.choice(values)
    every = re.findall(r"(?<=: )[\w.:]+(?=[,}\s])", text)
    number = re.fullmatch(r"\d+|0b[01]+", found[0])
    options = [str(int(found[0], 0) + 1), str(max(0, int(found[0], 0) - 1)), "0"] if number else []
    new = draw.choice([*options, draw.choice(every)])
    lines[place] = line[: found.start()] + new + line[found.end() :] + (f"#{remark}" if remark else "")
    return "".join(lines)


def edited(name: str, text: str, draw: Random) -> str:
    """A file with one change, now and then with two."""
    edit = {"py": python, "p4": p4, "yaml": yaml}[name.rpartition(".")[2]]
    for _ in range(1 + (draw.random() < 0.2)):
        try:
            text = edit(text, draw)
        except (SyntaxError, ValueError):
            break
    return text


# Edits that keep what a program means: names, orders, notations, statements that do nothing.


def kept(name: str, text: str, draw: Random) -> str:
    """A file written otherwise, which means the same."""
    return {"py": _python_kept, "p4": _p4_kept, "yaml": _yaml_kept}[name.rpartition(".")[2]](text, draw)


def _python_kept(text: str, draw: Random) -> str:
    tree = ast.parse(text)
    for _ in range(draw.randrange(1, 4)):
        _renamed(tree, draw)
    for node in _nodes(tree, ast.BinOp):
        if isinstance(node.op, ast.Mult | ast.BitAnd | ast.BitXor) and draw.random() < 0.5:
            node.left, node.right = node.right, node.left
    for node in _nodes(tree, ast.If):
        if node.orelse and draw.random() < 0.3:
            node.test = ast.UnaryOp(ast.Not(), node.test)
            node.body, node.orelse = node.orelse, node.body
    for body in _bodies(tree):
        if draw.random() < 0.2:
            body.insert(
                draw.randrange(len(body)), ast.parse(draw.choice(["pass", "unused = 7", "assert True"])).body[0]
            )
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


_LOCALS = ["bitmap", "sum", "others", "is_done", "slot", "other"]


def _p4_kept(text: str, draw: Random) -> str:
    lines = text.splitlines(keepends=True)
    for word in _LOCALS:
        if draw.random() < 0.5:
            own = re.compile(rf"(?<![.\w]){word}\b(?! *\()")
            lines = [line if "struct" in line else own.sub(f"my_{word}", line) for line in lines]
    text = "".join(lines)
    text = re.sub(
        r"(?<== )([\w.]+) ([&|+]) ([\w.]+)(?=;)",
        lambda at: f"{at[3]} {at[2]} {at[1]}" if draw.random() < 0.5 else at[0],
        text,
    )
    lines = text.splitlines(keepends=True)
    for place in reversed(range(len(lines))):
        found = re.match(r"(\s+)((?:(?:hdr|std)\.[\w.]+ = |\w+\.write\()[^;]*;)\s*(//.*)?$", lines[place])
        if found and draw.random() < 0.2:
            lines[place] = f"{found[1]}if (true) {{ {found[2]} }}\n" if "select" not in lines[place] else lines[place]
    return "".join(lines)


def _yaml_kept(text: str, draw: Random) -> str:
    def number(found: re.Match) -> str:
        value = int(found[0], 0)
        return draw.choice([str(value), hex(value), bin(value)])

    text = re.sub(r"(?<=: )(?:\d+|0b[01]+)(?=[,}\s])", number, text)
    return "# mine\n" + "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))


Changes = dict[str, list[dict[str, str]]]
"""right solutions by name: changes of the published one

``file``: in which file, where a lab has several. ``new`` comes in place of ``old``, or of all between the first place
of ``from`` and that of ``until`` behind it (the whole file where both are left out).
"""

_HERE = Path(__file__).parent
REWRITES: dict[str, Changes] = yaml_files.safe_load((_HERE / "rewrites.yaml").read_text("utf-8"))
"""by lab; in a few places, so that several go together"""
WHOLE: dict[str, Changes] = {
    path.stem: yaml_files.safe_load(path.read_text("utf-8")) for path in sorted((_HERE / "styles").glob("*.yaml"))
}
"""by lab; most of what a student writes, each for itself"""


def _changed(text: str, change: dict[str, str]) -> str | None:
    """A text after a change; None where its place is not there."""
    if "old" in change:
        return text.replace(change["old"], change["new"], 1) if change["old"] in text else None
    begins = text.find(change.get("from", ""))
    ends = text.find(change["until"], begins) if "until" in change else len(text)
    return None if -1 in (begins, ends) else text[:begins] + change["new"] + text[ends:]


def rewrite(number: str, folder: Path, changes: Changes) -> list[str]:
    """A folder with a lab's published solution gets some changes; those whose places others took are told."""
    left_out = []
    for name, parts in changes.items():
        texts: dict[Path, str] = {}
        for change in parts:
            path = folder / change.get("file", find(number).files[0])
            text = _changed(texts.get(path, path.read_text("utf-8")), change)
            if text is None:
                left_out.append(name)
                break
            texts[path] = text
        else:
            for path, text in texts.items():
                path.write_text(text, "utf-8")
    return left_out
