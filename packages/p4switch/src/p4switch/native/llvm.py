"""LLVM: from its text to machine code in memory. Object code from here may be kept on disk for this very processor."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import finalize

import llvmlite
import llvmlite.binding as llvm


@cache
def target_machine() -> Any:
    """The processor that runs this, with code that may lie anywhere."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )


@cache
def version() -> str:
    """A hash of what decides about machine code beside its source: LLVM and the processor."""
    digest = hashlib.sha256()
    for text in (llvmlite.__version__, str(llvm.llvm_version_info), llvm.get_host_cpu_name()):
        digest.update(text.encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    return digest.hexdigest()


def parsed(module: Any) -> Any:
    """A module of llvmlite's for this processor, as LLVM's."""
    machine = target_machine()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    found = llvm.parse_assembly(str(module))
    found.verify()
    return found


def optimize(module: Any) -> None:
    """Run LLVM's O2 pipeline, with both vectorizers, on a module of LLVM's."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)


@dataclass(frozen=True, eq=False)
class Linked:
    """Object code in memory, for as long as this object; ``addresses`` has the functions that were asked for."""

    addresses: Mapping[str, int]


def link(code: bytes, names: Iterable[str]) -> Linked:
    """Bring object code into memory: a linker of its own, so that nothing is left of it once it is freed.

    JITLink puts all sections of a program into one mapping. LLVM's older linker maps each where there is room, in a
    process with hundreds of threads gigabytes apart, and then ends the process: code reaches its constants by 32 bits.
    """
    linker = llvm.create_lljit_compiler(target_machine(), use_jit_link=True)
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    names = tuple(names)
    for name in names:
        builder.export_symbol(name)
    library = builder.link(linker, "p4reduce")
    linked = Linked({name: library[name] for name in names})
    finalize(linked, _unlink, linker, library).atexit = False  # then drivers may still run it
    return linked


def _unlink(linker: Any, library: Any) -> None:
    """Frees code; nothing may run it any more."""
    library.close()
    linker.close()
