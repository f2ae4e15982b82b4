"""``python -m p4switch.native.build MODULE FILE ...``: compile the entries of modules with Numba and LLVM.

A function that several of the modules call is compiled by Numba once.

Numba is used as a front end only. Numba alone would optimize every function with all its callees, once for each
caller, and make machine code of each. Here its unoptimized output is gathered into one module, of which only the
entries are visible from outside; that module is optimized and translated once.

Compiled functions must not allocate, because Numba's runtime is not linked. They count references where they pass
arrays on, but every array is memory that the caller owns, so the counting functions do nothing.
"""
# mypy: disable-error-code="no-untyped-call, attr-defined"

import gc
import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, codegen, config
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.np.arrayobj import make_array, populate_array

from p4switch.native import compiler, objects
from p4switch.native.compiler import Argument, Entry
from p4switch.native.objects import optimize, target_machine

_I64: Final = ir.IntType(64)
_ENDLESS: Final = 1 << 40
"""declared length of the arrays that entries get; only the callers know the real length"""
_NO_REFERENCES: Final = """
define void @NRT_incref(i8* %meminfo) { ret void }
define void @NRT_decref(i8* %meminfo) { ret void }
"""


class _Library(codegen.JITCodeLibrary):
    """Keeps Numba's output for one function unchanged."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.modules: list[Any] = []

    def add_ir_module(self, ir_module: Any) -> None:
        self.modules.append(ir_module)

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def libraries(self, seen: set[Any]) -> Iterator["_Library"]:
        """Yields this library and every library that it needs, each once."""
        seen.add(self)
        yield self
        for library in self._linking_libraries:
            if library not in seen and isinstance(library, _Library):
                yield from library.libraries(seen)


class _Codegen(codegen.JITCPUCodegen):
    _library_class = _Library

    def set_env(self, env_name: str, env: Any) -> None:
        """Does nothing, because no code runs in this process."""


def front_end(context: Any) -> Any:
    """Returns Numba's target context, with a code generator that keeps its input unoptimized.

    Raises `RuntimeError` if this version of Numba lacks one of the undocumented parts that are used here.
    """
    parts = {
        "a target context's _internal_codegen": (context, "_internal_codegen"),
        "JITCPUCodegen._library_class": (codegen.JITCPUCodegen, "_library_class"),
        "JITCodeLibrary.add_linking_library": (codegen.JITCodeLibrary, "add_linking_library"),
    }
    missing = [name for name, (owner, attribute) in parts.items() if not hasattr(owner, attribute)]
    if missing:
        raise RuntimeError(
            f"Numba {numba.__version__} lacks {missing[0]}, with which p4reduce compiles: install a version "
            "that p4reduce's package metadata names (pip install p4reduce does)"
        )
    if not isinstance(context._internal_codegen, _Codegen):
        rtsys.initialize(context)  # adds its own code, which is left out
        context._internal_codegen = _Codegen("p4reduce")
    return context


def object_code(entries: Iterable[Entry]) -> bytes:
    """Returns one object file that holds these C functions. Raises ValueError if one of them allocates."""
    context = front_end(cpu_target.target_context)
    seen: set[Any] = set()
    whole = llvm.parse_assembly(_NO_REFERENCES)
    names = []
    for entry in entries:
        for library in _c_function(context, entry).libraries(seen):
            for module in library.modules:
                parsed = llvm.parse_assembly(cgutils.normalize_ir_text(str(module)))
                whole.triple, whole.data_layout = parsed.triple, parsed.data_layout
                whole.link_in(parsed)
        names.append(entry.symbol)
    for function in whole.functions:
        if not function.is_declaration:
            function.linkage = "external" if function.name in names else "internal"
    for variable in whole.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    whole.verify()
    optimize(whole)
    runtime = sorted(
        declared.name for declared in whole.functions if declared.is_declaration and declared.name.startswith("NRT_")
    )
    if runtime:
        raise ValueError(f"{', '.join(names)}: need Numba's runtime ({', '.join(runtime)}): they allocate")
    return target_machine().emit_object(whole)  # type: ignore[no-any-return]


def _numba_type(argument: Argument) -> Any:
    if isinstance(argument, np.dtype):
        return types.Array(numba.from_dtype(argument), 1, "C")
    return types.int64


def _c_function(context: Any, entry: Entry) -> _Library:
    """Makes a library with a C function that calls the compiled one."""
    parameters = tuple(_numba_type(argument) for argument in entry.arguments)
    entry.dispatcher.compile(parameters)
    compiled = entry.dispatcher.overloads[parameters]
    result = compiled.signature.return_type
    library = context.codegen().create_library(entry.symbol)
    module = library.create_ir_module(entry.symbol)
    function = ir.Function(module, ir.FunctionType(_I64, [_I64] * len(parameters)), entry.symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    passed = [
        _array_at(context, builder, parameter, argument) if isinstance(parameter, types.Array) else argument
        for parameter, argument in zip(parameters, function.args, strict=True)
    ]
    callee = context.declare_function(module, compiled.fndesc)
    _status, value = context.call_conv.call_function(builder, callee, result, parameters, passed)
    if result == types.none:
        builder.ret(ir.Constant(_I64, 0))
    else:
        builder.ret(context.cast(builder, value, result, types.int64))
    library.add_ir_module(module)
    library.add_linking_library(compiled.library)
    return library  # type: ignore[no-any-return]


def _array_at(context: Any, builder: Any, kind: Any, address: Any) -> Any:
    array = make_array(kind)(context, builder)
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    populate_array(
        array,
        data=builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer()),
        shape=(context.get_constant(types.intp, _ENDLESS),),
        strides=(itemsize,),
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


class _Progress:
    """Prints how many functions have begun to compile, and how many are known."""

    def __init__(self) -> None:
        self._done = 0

    def __call__(self, known: int) -> None:
        self._done += 1
        print(f"compiled {self._done} {known}", flush=True)


def main(*words: str) -> int:
    """Compiles the entries of each module into the file named after it; ``words``: module, file, module, file, ..."""
    gc.disable()  # saves a tenth of the time for some 100 MB of memory; the process is short
    compiler.ahead = _Progress()
    config.DISABLE_PERFORMANCE_WARNINGS = 1
    for module, path in zip(words[::2], words[1::2], strict=True):
        importlib.import_module(module)
        objects.write(Path(path), object_code(objects.entries_of(module)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
