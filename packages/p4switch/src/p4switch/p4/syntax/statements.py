"""The parser of parsers, controls, states, actions and tables (P4_16 specification, sections 13 and 14)."""

from collections.abc import Callable, Sequence
from typing import Any

from p4switch.p4.diagnostics import SourceFault
from p4switch.p4.syntax import tree
from p4switch.p4.syntax.expressions import ExpressionParser
from p4switch.p4.syntax.preprocessor import END, NAME, SIGN

# Statements, and declarations among statements (P4_16 specification, section 12).


_COMPOUND = {f"{op}=": op for op in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")}

_STATEMENTS = {
    "if": "_if", "return": "_return", "exit": "_exit", "switch": "_switch", "const": "_constant",
}  # fmt: skip


class StatementParser(ExpressionParser):
    """Parses statements, parsers and controls."""

    def block(self) -> tree.Block:
        """Parses ``{ … }``; an error in one statement does not stop the others from being parsed."""
        self.nest()
        at = self.expect("{", "to begin a block")
        items: list[Any] = []
        while self.text != "}" or self.kind != SIGN:
            if self.kind == END:
                raise SourceFault(at, "this block is not closed", "A '}' is missing.")
            if not self._guarded(lambda: items.append(self.statement()), ("}", "{")) and self.starts_top_level():
                break
        else:
            self.at += 1
        self.depth -= 1
        return tree.Block(at, self.ended, items)

    def _guarded(self, read: Callable[[], None], kept: Sequence[str] = ()) -> bool:
        """Calls ``read``; after an error, records it and skips the statement. Returns whether there was no error.

        Args:
            read: parses a statement or declaration.
            kept: tokens that are not skipped if ``read`` failed without taking any.
        """
        begin, depth = self.at, self.depth
        try:
            read()
        except SourceFault as fault:
            self.diagnostics.fault(fault)
            self.depth = depth
            self.at += self.at == begin and self.text not in kept
            self.skip_statement()
            return False
        return True

    def starts_top_level(self) -> bool:
        """Returns whether the file ends or a top-level declaration begins here, so that a block is not closed."""
        return self.kind == END or (
            self.kind == NAME and self.text in ("control", "parser", "header", "struct", "typedef", "package")
        )

    def statement(self) -> Any:
        """Parses a statement or a declaration."""
        kind, text, at = self.tokens[self.at]
        if kind == SIGN:
            if text == "{":
                return self.block()
            if text == ";":
                self.at += 1
                return tree.Empty(at, self.ended)
            if text == "@":
                annotations = self.annotations()
                if self.text == "{":
                    return self.block()
                if self.text == "for" and self.ahead() == "(":
                    return self._for(self.position)
                return self.declaration_or_expression(annotations)
        elif kind == NAME and text in _STATEMENTS:
            return getattr(self, _STATEMENTS[text])(at)
        elif kind == NAME and text == "for" and self.ahead() == "(":
            return self._for(at)
        elif kind == NAME and text in ("break", "continue") and self.ahead() == ";":
            self.at += 2
            return tree.LeaveLoop(at, self.ended, text)
        elif text == "table":
            self.fail("a table is declared in a control, before its apply block", "Move it up, and call name.apply().")
        elif text == "action":
            self.fail("an action is declared in a control, before its apply block", "Move it up, and call it by name.")
        elif text == "transition":
            self.fail("'transition' belongs into a parser's state")
        return self.declaration_or_expression([])

    def _if(self, at: int) -> tree.If:
        self.nest()
        self.at += 1
        if self.text != "(":
            self.fail(f"the condition of 'if' stands in brackets, found {self.shown()}", "Write if (…) { … }.")
        self.at += 1
        condition = self.expression()
        if self.text == "=" and self.kind == SIGN:
            self.fail("'=' assigns; a condition compares", "Write '=='.")
        self.expect(")", "the condition of this 'if'")
        yes = self._branch("a branch of 'if'")
        no = self._branch("a branch of 'if'") if self.accept("else") else None
        self.depth -= 1
        return tree.If(at, self.ended, condition, yes, no)

    def _branch(self, what: str) -> tree.Statement:
        statement = self.statement()
        if not isinstance(statement, tree.Statement):
            raise SourceFault(statement.at, f"a declaration cannot be {what}", "Put it into { … }.")
        return statement

    def _for(self, at: int) -> tree.For | tree.ForIn:
        """Parses a loop from ``for`` on."""
        self.nest()
        self.at += 1
        self.expect("(", "behind 'for'")
        initial: list[Any] = []
        while self.text != ";" and (not initial or self.accept(",")):
            annotations = self.annotations()
            if self._starts_declaration() != "variable":
                initial.append(self.assignment_or_call(";,"))
                continue
            initial.append(self._declared(annotations))
            if self.accept("in"):
                return self._for_in(at, initial.pop())
        self.expect(";", "what a loop begins with")
        condition = self.expression()
        self.expect(";", "the condition of this loop")
        updates: list[tree.Statement] = []
        while self.text != ")" and (not updates or self.accept(",")):
            if self._starts_declaration() == "variable":
                self.fail("a loop declares its variables in its first part", "Write for (T i = …; …; …) { … }.")
            updates.append(self.assignment_or_call("),"))
        self.expect(")", "the head of this loop")
        body = self._branch("the body of a loop")
        self.depth -= 1
        return tree.For(at, self.ended, initial, condition, updates, body)

    def _for_in(self, at: int, variable: tree.Variable) -> tree.ForIn:
        values = self.expression()
        if self.accept(".."):
            high = self.expression()
            values = tree.Binary(values.at, high.end, "..", values, high)
        self.expect(")", "the head of this loop")
        body = self._branch("the body of a loop")
        self.depth -= 1
        return tree.ForIn(at, self.ended, variable, values, body)

    def _return(self, at: int) -> tree.Return:
        self.at += 1
        value = None if self.text == ";" else self.expression()
        self.expect(";", "'return'")
        return tree.Return(at, self.ended, value)

    def _exit(self, at: int) -> tree.Exit:
        self.at += 1
        self.expect(";", "'exit'")
        return tree.Exit(at, self.ended)

    def _switch(self, at: int) -> tree.Switch:
        self.nest()
        self.at += 1
        self.expect("(", "behind 'switch'")
        subject = self.expression()
        self.expect(")", "what 'switch' looks at")
        self.expect("{", "to begin the cases of 'switch'")
        cases: list[tree.SwitchCase] = []
        while not self.accept("}"):
            begin = self.position
            if self.text == "case":
                self.fail("P4 writes a case without 'case'", "Write 'name: { … }'.")
            label = self.expression()
            self.expect(":", "behind the label of a case")
            body = self.block() if self.text == "{" else None
            if (
                body is None and self.kind == NAME and self.ahead() not in (":", "(", ".", ",", ")")
            ) or self.text == ";":
                self.fail("what a case does stands in a block", "Write 'name: { … }'.")
            cases.append(tree.SwitchCase(begin, self.ended, label, body))
        self.depth -= 1
        return tree.Switch(at, self.ended, subject, cases)

    def _constant(self, at: int) -> tree.Constant:
        return self.constant([])

    def constant(self, annotations: list[tree.Annotation]) -> tree.Constant:
        """Parses ``const T name = value;``."""
        self.expect("const", "")
        ref = self.type_ref()
        at, end, name = self.named("a constant")
        self.expect("=", f"and a value for the constant {name!r}")
        value = self.expression()
        self.expect(";", f"the constant {name!r}")
        return tree.Constant(at, end, name, annotations, ref, value)

    def _starts_declaration(self) -> str:
        """Returns ``variable`` or ``instance`` if such a declaration begins here, else an empty string."""
        at = self.at
        if self.starts_type_word() or (self.text == "error" and self.ahead() != "."):
            return "variable"
        if self.tokens[at][1] == "." and self.tokens[at][0] == SIGN:
            at += 1
        if self.tokens[at][0] != NAME:
            return ""
        at += 1
        if self.tokens[at][1] == "<":
            # The type arguments are parsed only to find their end.
            begin, kept = self.at, list(self.tokens[self.at : self.at + 64])
            self.at = at
            types = self._behind_types()
            after = self.at
            self.at = begin
            self.tokens[begin : begin + 64] = kept
            if not types:
                return ""
            at = after
            if self.tokens[at][1].startswith(">"):
                at += 1
        while self.tokens[at][1] == "[" and self.tokens[at][0] == SIGN:
            at = self.matching(at) + 1
        if self.tokens[min(at, len(self.tokens) - 1)][0] == NAME:
            return "variable"
        if self.tokens[at][1] == "(" and self.tokens[at][0] == SIGN:
            close = self.matching(at)
            if self.tokens[min(close + 1, len(self.tokens) - 1)][0] == NAME:
                return "instance"
        return ""

    def _behind_types(self) -> bool:
        self.at += 1
        try:
            self._type_arguments()
        except SourceFault:
            return False
        return True

    def declaration_or_expression(self, annotations: list[tree.Annotation]) -> Any:
        """Parses a variable, an instance, an assignment or a call."""
        what = self._starts_declaration()
        if what == "variable":
            return self.variable(annotations)
        if what == "instance":
            return self.instance(annotations)
        if annotations and self.text == "const":
            return self.constant(annotations)
        return self.assignment_or_call(";")

    def assignment_or_call(self, ends: str) -> tree.Assign | tree.CallStatement:
        """Parses an assignment (``=``, ``+=`` …) or a call up to a sign in ``ends``; takes it if ``ends`` is ``;``."""
        at = self.position
        if self.kind == NAME and self.text in ("else", "default", "in", "out", "inout", "state", "key"):
            self.fail(f"a statement cannot begin with {self.text!r}")
        left = self.expression()
        if self.kind == SIGN and (self.text == "=" or self.text in _COMPOUND):
            operator = _COMPOUND.get(self.text)
            self.at += 1
            right = self.expression()
            self._end(ends, "this assignment")
            if operator is not None:
                right = tree.Binary(left.at, right.end, operator, left, right)
            return tree.Assign(at, self.ended, left, right)
        if isinstance(left, tree.Call):
            self._end(ends, "this call")
            return tree.CallStatement(at, self.ended, left)
        if self.text == "++":
            self.fail("P4 has no '++' that counts up", "Write x = x + 1;")
        raise SourceFault(at, "this expression is no statement: it neither assigns nor calls anything")

    def variable(self, annotations: list[tree.Annotation]) -> tree.Variable:
        """Parses ``T name;`` or ``T name = value;``."""
        variable = self._declared(annotations)
        self.expect(";", f"the variable {variable.name!r}")
        return variable

    def _declared(self, annotations: list[tree.Annotation]) -> tree.Variable:
        ref = self.type_ref()
        at, end, name = self.named("a variable")
        ref = self.declarator(ref)
        value = self.expression() if self.accept("=") else None
        return tree.Variable(at, end, name, annotations, ref, value)

    def declarator(self, ref: tree.TypeRef) -> tree.TypeRef:
        """Parses array sizes after a declared name; returns its type: ``T name[n]`` is ``T[n] name``."""
        while self.accept("["):
            size = self.expression()
            self.expect("]", "the size of an array")
            ref = tree.StackTypeRef(ref.at, self.ended, ref, size)
        return ref

    def _end(self, ends: str, what: str) -> None:
        if ends == ";" or self.kind != SIGN or self.text not in ends:
            self.expect(ends[0], what)

    def instance(self, annotations: list[tree.Annotation]) -> tree.Instance:
        """Parses ``T(arguments) name;`` or ``T(arguments) name = { … };``."""
        ref = self.type_ref()
        arguments = self.arguments()
        at, end, name = self.named("an instance")
        members = None
        if self.accept("="):
            self.expect("{", f"to begin what the instance {name!r} is made of")
            members = []
            while not self.accept("}"):
                members.append(self.instance_member())
        self.expect(";", f"the instance {name!r}")
        return tree.Instance(at, end, name, annotations, ref, arguments, members)

    def instance_member(self) -> Any:
        """Parses a function or an instance within an instance's block."""
        annotations = self.annotations()
        if self._starts_declaration() == "instance":
            return self.instance(annotations)
        return self.function(annotations)

    def function(self, annotations: list[tree.Annotation]) -> tree.Function:
        """Parses ``T name<types>(parameters) { … }``, or with ``;`` in place of the block."""
        result = self.type_ref()
        at, end, name = self.position, self.position + len("apply"), "apply"
        if not self.accept("apply"):
            at, end, name = self.named("a function")
        types = self.type_parameters()
        parameters = self.parameters()
        body = None if self.accept(";") else self.block()
        return tree.Function(at, end, name, annotations, result, types, parameters, body)

    def type_parameters(self) -> list[str]:
        """Parses ``<A, B>`` if it is next; returns the names."""
        names: list[str] = []
        if self.accept("<"):
            while True:
                names.append(self.name("a type"))
                if not self.accept(","):
                    break
            self.close_angle()
        return names

    def parameters(self) -> list[tree.Parameter]:
        """Parses ``(in T a, out U b)``."""
        self.expect("(", "before the parameters")
        return self.separated(")", "the parameters", self._parameter)

    def _parameter(self) -> tree.Parameter:
        annotations = self.annotations()
        direction = self.text if self.text in ("in", "out", "inout") else ""
        self.at += bool(direction)
        ref = self.type_ref()
        at, end, name = self.named("a parameter")
        default = self.expression() if self.accept("=") else None
        return tree.Parameter(at, end, name, annotations, direction, ref, default)

    # --- parsers and controls

    def program(self, annotations: list[tree.Annotation]) -> tree.Program:
        """Parses a ``parser`` or ``control``: a type if ``;`` ends it, else a declaration with a body."""
        kind = self.text
        self.at += 1
        at, end, name = self.named(f"a {kind}")
        types = self.type_parameters()
        parameters = self.parameters()
        if self.accept(";"):
            return tree.Program(at, end, name, annotations, kind, types, parameters, [], [], [], None)
        constructor: list[tree.Parameter] = self.parameters() if self.text == "(" else []
        opened = self.expect("{", f"to begin the {kind} {name!r}")
        program = tree.Program(
            at, end, name, annotations, kind, types, parameters, constructor, [], [], tree.Block(0, 0, [])
        )
        while not self.accept("}"):
            if self.kind == END or (self.starts_top_level() and self.ahead(2) in ("(", "{", "<")):
                raise SourceFault(opened, f"the {kind} {name!r} is not closed", "A '}' is missing.")
            self._guarded(lambda: self._local(program))
        return program

    def _local(self, program: tree.Program) -> None:
        """Parses a declaration in a parser or control, a state, or the apply block."""
        if self.kind == SIGN and self.text == ";":
            self.at += 1
            return
        annotations = self.annotations()
        word = self.text
        if program.kind == "control":
            if word == "apply" and self.ahead() == "{":
                self.at += 1
                program.body = self.block()
                return
            if word == "action":
                program.locals.append(self.action(annotations))
                return
            if word == "table":
                program.locals.append(self.table(annotations))
                return
            if word == "state":
                self.fail("a state belongs into a parser, not into a control")
        elif word == "state":
            program.states.append(self.state(annotations))
            return
        elif word in ("table", "action", "apply") and self.ahead() != "=":
            self.fail(f"{word!r} belongs into a control, not into a parser")
        program.locals.append(self._declaration(annotations))

    def _declaration(self, annotations: list[tree.Annotation]) -> tree.Declaration:
        if self.text == "const":
            return self.constant(annotations)
        if self.text == "value_set" and self.ahead() == "<":
            return self.value_set(annotations)
        if self.kind == NAME and self.text in ("if", "return", "exit", "switch"):
            self.fail(f"{self.text!r} stands outside of an apply block, action or state", "Move it into 'apply { … }'.")
        what = self._starts_declaration()
        if what == "variable":
            return self.variable(annotations)
        if what == "instance":
            return self.instance(annotations)
        name = self.text
        if self.is_name() and self.ahead() in (".", "=", "(", "["):
            hint = "Statements go into 'apply { … }', an action, or a state of a parser."
            self.fail(f"a statement that begins with {name!r} stands outside of an apply block", hint)
        self.fail(f"expected a declaration, found {self.shown()}")

    def value_set(self, annotations: list[tree.Annotation]) -> tree.ValueSet:
        """Parses ``value_set<T>(size) name;``."""
        self.at += 2
        ref = self.type_ref()
        self.close_angle()
        self.expect("(", "before the size of a value set")
        size = self.expression()
        self.expect(")", "the size of this value set")
        at, end, name = self.named("a value set")
        self.expect(";", f"the value set {name!r}")
        return tree.ValueSet(at, end, name, annotations, ref, size)

    # --- parsers

    def state(self, annotations: list[tree.Annotation]) -> tree.State:
        """Parses ``state name { …; transition …; }``."""
        self.at += 1
        at, end, name = self.named("a state")
        self.expect("{", f"to begin the state {name!r}")
        state = tree.State(at, end, name, annotations, [], None)
        while not self.accept("}"):
            if self.kind == END:
                raise SourceFault(at, f"the state {name!r} is not closed", "A '}' is missing.")
            going_on = self._guarded(lambda: self._state_item(state))
            if not going_on and (self.starts_top_level() or self.text == "state"):
                break
        return state

    def _state_item(self, state: tree.State) -> None:
        if self.text != "transition":
            state.items.append(self.statement())
            return
        state.transition = self._transition()
        if self.text != "}":
            self.fail("'transition' must be the last thing in a state", "Move what follows in front of it.")

    def _transition(self) -> tree.Transition:
        at = self.position
        self.at += 1
        if self.text != "select" or self.ahead() != "(":
            name = self.name("a state")
            self.expect(";", "'transition'")
            return tree.Transition(at, self.ended, name, [], [])
        self.at += 2
        keys = self.separated(")", "the keys of 'select'", self.expression)
        self.expect("{", "to begin the cases of 'select'")
        cases: list[tree.SelectCase] = []
        while not self.accept("}"):
            begin = self.position
            keyset = self.keyset()
            self.expect(":", "between a case of 'select' and its state")
            name = self.name("a state")
            self.expect(";", "a case of 'select'")
            cases.append(tree.SelectCase(begin, self.ended, keyset, name))
        self.accept(";")
        return tree.Transition(at, self.ended, None, keys, cases)

    def keyset(self) -> tree.Expression:
        """Parses a key set: several keys in brackets, or a single key."""
        if self.text == "(" and self.kind == SIGN:
            close = self.matching(self.at)
            if self.tokens[min(close + 1, len(self.tokens) - 1)][1] == ":":
                at = self.position
                self.at += 1
                items = self.separated(")", "the keys of this case", self._simple_keyset)
                return tree.ListOf(at, self.ended, items)
        return self._simple_keyset()

    def _simple_keyset(self) -> tree.Expression:
        at = self.position
        if self.kind == NAME and self.text in ("default", "_"):
            self.at += 1
            return tree.Default(at, self.ended, self.tokens[self.at - 1][1])
        if self.text == "(" and self.kind == SIGN:
            # Brackets hold the sets of a tuple key, or a single set.
            inner = self.tokens[self.matching(self.at) + 1][1]
            if inner in (",", ")", ":") and any(
                t[1] in (",", "&&&", "..", "_") for t in self.tokens[self.at : self.matching(self.at)]
            ):
                self.at += 1
                items = [self._simple_keyset()]
                while self.accept(","):
                    items.append(self._simple_keyset())
                self.expect(")", "these keys")
                return items[0] if len(items) == 1 else tree.ListOf(at, self.ended, items)
        value = self.expression()
        if self.text in ("&&&", ".."):
            operator = self.text
            self.at += 1
            other = self.expression()
            return tree.Binary(at, other.end, operator, value, other)
        return value

    # --- controls

    def action(self, annotations: list[tree.Annotation]) -> tree.Action:
        """Parses ``action name(parameters) { … }``."""
        self.at += 1
        at, end, name = self.named("an action")
        parameters = self.parameters()
        return tree.Action(at, end, name, annotations, parameters, self.block())

    def table(self, annotations: list[tree.Annotation]) -> tree.Table:
        """Parses ``table name { … }``."""
        self.at += 1
        at, end, name = self.named("a table")
        bracket = self.at
        opened = self.expect("{", f"to begin the table {name!r}")
        table = tree.Table(at, end, name, annotations, [], [], None, False, None, {})
        seen: set[str] = set()
        while not self.accept("}"):
            if self.kind == END:
                raise SourceFault(opened, f"the table {name!r} is not closed", "A '}' is missing.")
            try:
                self._property(table, seen)
            except SourceFault as fault:
                # Further errors in the same table would mislead: skip its rest.
                self.diagnostics.fault(fault)
                self.depth = 1
                self.at = max(self.at, min(self.matching(bracket) + 1, len(self.tokens) - 1))
                break
        else:
            if "actions" not in seen:
                hint = "Write actions = { NoAction; }."
                self.diagnostics.error(at, f"the table {name!r} does not say which actions it has", hint)
        return table

    def _property(self, table: tree.Table, seen: set[str]) -> None:
        annotations = self.annotations()
        constant = self.accept("const")
        at, end, name = self.named("a property of a table")
        if name in seen:
            raise SourceFault(at, f"the table {table.name!r} has two properties {name!r}")
        seen.add(name)
        if self.text == ":":
            self.fail(f"the property {name!r} needs '=', not ':'", f"Write {name} = …")
        self.expect("=", f"behind the property {name!r}")
        match name:
            case "key":
                self.expect("{", "to begin the keys")
                while not self.accept("}"):
                    table.keys.append(self._key())
            case "actions":
                self.expect("{", "to begin the actions")
                while not self.accept("}"):
                    table.actions.append(self._action_of_list())
            case "default_action":
                table.default, table.default_constant = self._action_ref([]), constant
                self.expect(";", "the default action")
            case "entries":
                table.entries, table.entries_constant = self._entries(), constant
            case _:
                value = self.expression()
                self.expect(";", f"the property {name!r}")
                table.properties[name] = tree.Property(at, end, name, annotations, value)
                return
        self.accept(";")

    def _key(self) -> tree.KeyElement:
        at = self.position
        expression = self.expression()
        if self.text == ";":
            self.fail("this key says not how it is matched", "Write 'key: exact;', or lpm, ternary, range, optional.")
        self.expect(":", "between a key and how it is matched")
        match = self.name("a kind of match")
        annotations = self.annotations()
        if self.text == ",":
            self.fail("keys end with ';', not with ','")
        self.expect(";", "this key")
        return tree.KeyElement(at, self.ended, expression, match, annotations)

    def _action_of_list(self) -> tree.ActionRef:
        annotations = self.annotations()
        ref = self._action_ref(annotations)
        if self.text == ",":
            self.fail("actions of a table end with ';', not with ','")
        self.expect(";", f"the action {ref.name!r}")
        return ref

    def _action_ref(self, annotations: list[tree.Annotation]) -> tree.ActionRef:
        at = self.position
        rooted = self.accept(".")
        name = self.name("an action")
        while self.text == "." and self.is_name(1):
            self.fail("a table takes actions of its own control or of the program, by their name alone")
        arguments = self.arguments() if self.text == "(" else []
        return tree.ActionRef(at, self.ended, name, rooted, arguments, annotations)

    def _entries(self) -> list[tree.Entry]:
        self.expect("{", "to begin the entries")
        entries: list[tree.Entry] = []
        while not self.accept("}"):
            before = self.annotations()
            self.accept("const")
            at = self.position
            priority: tree.Expression | None = None
            if self.text == "priority" and self.ahead() in ("=", ":"):
                self.at += 2
                priority = self.expression()
                self.expect(":", "behind the priority")
            elif self.kind == "number" and self.ahead() == ":" and self.ahead(2) == "(":
                # a priority without the word, as in some versions of the language
                priority = self.expression()
                self.at += 1
            keyset = self.keyset()
            self.expect(":", "between an entry's keys and its action")
            action = self._action_ref([])
            annotations = before + self.annotations()
            self.expect(";", "this entry")
            entries.append(tree.Entry(at, self.ended, keyset, action, annotations, priority))
        return entries

    def package(self, annotations: list[tree.Annotation]) -> tree.Package:
        """Parses ``package name<types>(parameters);``."""
        self.at += 1
        at, end, name = self.named("a package")
        types = self.type_parameters()
        parameters = self.parameters()
        self.expect(";", f"the package {name!r}")
        return tree.Package(at, end, name, annotations, types, parameters)
