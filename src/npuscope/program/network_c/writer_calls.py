"""Software and hybrid epochs: the end function calls a kernel between two cache operations."""

from __future__ import annotations

from npuscope.errors import TargetError
from npuscope.program.model import Buffer, Call, Epoch, EpochKind
from npuscope.program.network_c.layout import PROCESSOR_NAME, PROCESSOR_NUMBER
from npuscope.program.network_c.writer_kernels import fill
from npuscope.program.network_c.writer_library import LibraryCall, library_call, tables
from npuscope.program.network_c.writer_scope import Lines, Scope, node_name
from npuscope.program.network_c.writer_software import NoKernel, SoftwareCall
from npuscope.program.network_c.writer_units import function_head
from npuscope.text import c_comment, c_identifier, c_string

# Lines of the CPU's cache.
_CACHE_LINE_BYTES = 32
_EXTERNAL = "npuscope_kernel_"


def call_function(scope: Scope, epoch: Epoch) -> Lines:
    """Only an end function: software has nothing to start."""
    call = _call(epoch)
    kind = " ".join(epoch.operators) or call.kernel
    return [
        *function_head(scope, f"LL_ATON_End_EpochBlock_{epoch.number}"),
        *_cache(scope, call.inputs, "Invalidate"),
        f"  /* Unit= {PROCESSOR_NUMBER} [{PROCESSOR_NAME} 0] */",
        f"  /* kind={c_comment(kind)} node={node_name(epoch)} */",
        *_work(scope, epoch, call),
        *_cache(scope, call.outputs, "Clean"),
        "}",
        "",
    ]


def drives_npu(scope: Scope, epoch: Epoch) -> bool:
    """Whether the call uses stream engines, which makes the epoch a hybrid for the runtime."""
    call = _library(scope, epoch, _call(epoch))
    return call is not None and call.drives_npu


def external_kernels(scope: Scope) -> Lines:
    """Declarations of the kernels that the vendor's libraries do not have."""
    epochs = [e for e in scope.program.epochs if e.kind in (EpochKind.SW, EpochKind.HYBRID)]
    names = {external_name(_call(e)) for e in epochs if not _known(scope, e)}
    if not names:
        return []
    return [
        "/* Kernels that the runtime's libraries do not have: the application supplies them. */",
        *(f"{_declaration(name)};" for name in sorted(names)),
        "",
    ]


def external_name(call: Call) -> str:
    return f"{_EXTERNAL}{c_identifier(call.kernel.lower())}"


def _declaration(name: str) -> str:
    return (
        f"extern void {name}(const LL_Buffer_InfoTypeDef *inputs, uint32_t ninputs, "
        "const LL_Buffer_InfoTypeDef *outputs, uint32_t noutputs, const char *arguments)"
    )


def _call(epoch: Epoch) -> Call:
    if epoch.call is None:
        raise TargetError(
            f"{epoch.name} names no kernel call, so no C source can be made of it",
            hint="compile the model with npuscope, or read a network.c instead",
        )
    return epoch.call


def _known(scope: Scope, epoch: Epoch) -> bool:
    call = _call(epoch)
    return _library(scope, epoch, call) is not None or _software(scope, epoch, call) is not None


def _work(scope: Scope, epoch: Epoch, call: Call) -> Lines:
    """The library's move, the library's kernel, or a kernel that somebody else supplies."""
    library = _library(scope, epoch, call)
    if library is not None:
        # The engines' links of an earlier epoch would disturb the library's own.
        reset = ["  LL_Switch_Init(NULL, 0);"] if library.drives_npu else []
        return [*reset, *library.lines]
    return _software(scope, epoch, call) or _external(scope, epoch, call)


def _library(scope: Scope, epoch: Epoch, call: Call) -> LibraryCall | None:
    try:
        return library_call(scope, call, f"move_{epoch.number}")
    except NoKernel:
        return None


def _software(scope: Scope, epoch: Epoch, call: Call) -> Lines | None:
    made = SoftwareCall(scope, call, f"kernel_{epoch.number}")
    try:
        stem = fill(made)
    except NoKernel:
        return None
    name = f"{made.prefix}_sw_info"
    return [
        *made.arrays,
        f"  {stem}_sw_info {name} = {{",
        *made.fields,
        "  };",
        f"  ll_sw_forward_{stem.lower()}(&{name});",
    ]


def _external(scope: Scope, epoch: Epoch, call: Call) -> Lines:
    prefix = f"kernel_{epoch.number}"
    inputs = [scope.buffer(name) for name in call.inputs if name]
    outputs = [scope.buffer(name) for name in call.outputs]
    arguments = " ".join(f"{name}={value}".replace(" ", "") for name, value in call.args)
    return [
        f"  /* No kernel of the runtime's libraries does this: {c_comment(call.kernel)} */",
        *tables(scope, prefix, inputs, outputs),
        f"  {external_name(call)}({prefix}_in, {len(inputs)}, {prefix}_out, {len(outputs)},",
        f"      {c_string(arguments)});",
    ]


def _cache(scope: Scope, names: tuple[str, ...], action: str) -> Lines:
    """The CPU's cache is clean between epochs: it drops what it reads, writes back what it made."""
    buffers = [scope.buffer(name) for name in dict.fromkeys(names) if name]
    return [_range(scope, b, action) for b in buffers if not b.is_param]


def _range(scope: Scope, buffer: Buffer, action: str) -> str:
    """Whole cache lines around a buffer."""
    base = scope.pools[buffer.pool].address
    first = base + buffer.offset
    start = first // _CACHE_LINE_BYTES * _CACHE_LINE_BYTES
    end = -(-(first + buffer.size_bytes) // _CACHE_LINE_BYTES) * _CACHE_LINE_BYTES
    place = f"(uintptr_t)(ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR({base:#x}UL + {start - base}))"
    return f"  LL_ATON_Cache_MCU_{action}_Range({place}, {end - start});"
