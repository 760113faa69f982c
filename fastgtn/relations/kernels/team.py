"""Run compiled code on torch's threads: pieces of a range run on the OpenMP team that torch has started.

A second set of threads would compete with torch's, which keep spinning for a while after every operation. So the
team is asked for through ``GOMP_parallel`` of the library that torch itself is linked with (GNU's and LLVM's OpenMP
both have it). No Python runs on these threads, and the pieces are handed out one after the other, so that a thread
that the system delays takes fewer of them.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import torch
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_SYMBOL = "fastgtn_parallel"  # the symbol that compiled code calls; its address differs between processes
_PIECES = 16  # per thread: few enough that the hand-out costs nothing, many enough that all threads end together
_WORD, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()


def find_team() -> bool:
    """Register torch's OpenMP library for compiled code; returns False if torch has none that we can call."""
    address = _address()
    if address is None:
        global _alone
        _alone = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)(_call_once)
        binding.add_symbol(_SYMBOL, ctypes.cast(_alone, ctypes.c_void_p).value)
        return False
    binding.add_symbol(_SYMBOL, address)
    return True


_alone: Any = None  # keeps the stand-in alive: compiled code has its address


def _address() -> int | None:
    """Where ``GOMP_parallel`` is; found through torch's library, so that it is the one that torch uses."""
    ending = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / f"libtorch_cpu.{ending}"))
        return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def _call_once(function: int, data: int, _threads: int, _flags: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(data)


@intrinsic
def on_team(typing_context, function, threads, count, arguments):  # type: ignore[no-untyped-def]
    """Call ``function(first, last, *arguments)`` over pieces of ``range(count)`` on this many threads."""
    size = types.intp
    wanted = function.get_call_type(typing_context, (size, size, *arguments.types), {})
    if wanted.return_type != types.none:
        raise TypeError("a function that a team runs must return nothing")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, num_threads, num_items, packed = args
        data = cgutils.alloca_once(builder, ir.LiteralStructType([packed.type, _WORD, _WORD, _WORD]))
        pieces = builder.mul(num_threads, _WORD(_PIECES))
        fewer = builder.icmp_signed("<", num_items, pieces)
        fields = (packed, num_items, builder.select(fewer, num_items, pieces), _WORD(0))
        for number, value in enumerate(fields):
            builder.store(value, _field(builder, data, number))
        work = _worker(context, builder.module, data.type, function.dispatcher.get_compile_result(wanted), arguments)
        kind = ir.FunctionType(ir.VoidType(), [work.type, _BYTES, ir.IntType(32), ir.IntType(32)])
        parallel = cgutils.get_or_insert_function(builder.module, kind, _SYMBOL)
        raw = builder.bitcast(data, _BYTES)
        with builder.if_else(builder.icmp_signed(">", num_threads, _WORD(1))) as (many, one):
            with many:
                builder.call(parallel, [work, raw, builder.trunc(num_threads, ir.IntType(32)), ir.IntType(32)(0)])
            with one:
                builder.call(work, [raw])
        return context.get_dummy_value()

    return types.void(function, size, size, arguments), generate


def _worker(context: Any, module: Any, data_type: Any, compiled: Any, arguments: Any) -> Any:
    """The loop of each thread of a team: take the next piece and call the function, until no piece is left."""
    context.active_code_library.add_linking_library(compiled.library)
    callee = context.declare_function(module, compiled.fndesc)
    work = ir.Function(module, ir.FunctionType(ir.VoidType(), [_BYTES]), module.get_unique_name("work"))
    work.linkage = "internal"
    builder = ir.IRBuilder(work.append_basic_block("entry"))
    data = builder.bitcast(work.args[0], data_type)
    packed, count, pieces = (builder.load(_field(builder, data, number)) for number in range(3))
    values = cgutils.unpack_tuple(builder, packed, len(arguments))
    turn, call, end = (work.append_basic_block(name) for name in ("turn", "call", "end"))
    builder.branch(turn)
    builder.position_at_end(turn)
    piece = builder.atomic_rmw("add", _field(builder, data, 3), _WORD(1), "monotonic")
    builder.cbranch(builder.icmp_signed("<", piece, pieces), call, end)
    builder.position_at_end(call)
    first = builder.sdiv(builder.mul(count, piece), pieces)
    last = builder.sdiv(builder.mul(count, builder.add(piece, _WORD(1))), pieces)
    kinds = (types.intp, types.intp, *arguments.types)
    # not inlined: the same machine code runs however many threads there are, so the bits are the same, too
    context.call_conv.call_function(builder, callee, types.none, kinds, [first, last, *values], attrs=("noinline",))
    builder.branch(turn)
    builder.position_at_end(end)
    builder.ret_void()
    return work


def _field(builder: Any, data: Any, number: int) -> Any:
    return builder.gep(data, [ir.IntType(32)(0), ir.IntType(32)(number)], inbounds=True)
