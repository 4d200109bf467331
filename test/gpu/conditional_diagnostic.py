# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conditional nodes by the driver alone: every call with its answer.

Needs nothing but libcuda. Each part says what it tried; alternatives follow where the first way
fails. Ends with 0 if the ways that the runtime relies on gave right numbers.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

SETTER = b""".version 7.0
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional
(
  .param .b64 cudaGraphSetConditional_param_0,
  .param .b32 cudaGraphSetConditional_param_1
)
;
.visible .entry set_condition(.param .u64 condition, .param .u64 flag, .param .u64 negated)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [condition];
  ld.param.u64 %rd2, [flag];
  ld.param.u32 %r1, [negated];
  ld.global.u8 %r2, [%rd2];
  setp.ne.u32 %p1, %r2, 0;
  selp.u32 %r2, 1, 0, %p1;
  xor.b32 %r3, %r2, %r1;
  {
  .param .b64 param0;
  st.param.b64 [param0], %rd1;
  .param .b32 param1;
  st.param.b32 [param1], %r3;
  call.uni cudaGraphSetConditional, (param0, param1);
  }
  ret;
}
"""

# x += 1; flag = x < limit
STEP = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 px, .param .u64 plimit, .param .u64 pflag)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [px];
  ld.param.u64 %rd2, [plimit];
  ld.param.u64 %rd3, [pflag];
  ld.global.u32 %r1, [%rd1];
  add.u32 %r1, %r1, 1;
  st.global.u32 [%rd1], %r1;
  ld.global.u32 %r2, [%rd2];
  setp.lt.u32 %p1, %r1, %r2;
  selp.u32 %r3, 1, 0, %p1;
  st.global.u8 [%rd3], %r3;
  ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")
failures: list[str] = []


class KernelNode(ctypes.Structure):
    _fields_ = [
        ("func", c_void_p),
        *[(n, c_uint) for n in ("gx", "gy", "gz", "bx", "by", "bz", "shared")],
        ("params", c_void_p),
        ("extra", c_void_p),
        ("kern", c_void_p),
        ("ctx", c_void_p),
    ]


class ConditionNode(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("reserved0", c_int * 3),
        ("handle", c_uint64),
        ("kind", c_int),
        ("size", c_uint),
        ("bodies", ctypes.POINTER(c_void_p)),
        ("ctx", c_void_p),
        ("unused", ctypes.c_char * 200),
        ("reserved2", ctypes.c_longlong),
    ]


assert ctypes.sizeof(ConditionNode) == 256


def call(name: str, *args: object, quiet: bool = False) -> int:
    function = getattr(cuda, name, None)
    if function is None:
        print(f"  {name}: not in this driver")
        return -1
    result = function(*args)
    text = c_char_p()
    cuda.cuGetErrorName(result, byref(text))
    if result or not quiet:
        print(f"  {name}: {(text.value or b'?').decode()}")
    return result


def load(code: bytes, label: str) -> c_void_p | None:
    log = ctypes.create_string_buffer(8192)
    options = (c_int * 2)(5, 6)
    values = (c_void_p * 2)(ctypes.cast(log, c_void_p), 8192)
    module = c_void_p()
    print(f"{label}: cuModuleLoadDataEx of PTX")
    if call("cuModuleLoadDataEx", byref(module), code, 2, options, values) == 0:
        return module
    print("  log:", log.value.decode(errors="replace"))
    return None


def link(code: bytes, archive: str | None) -> c_void_p | None:
    print(f"setter: cuLinkCreate, cuLinkAddData, with {archive}")
    state, module = c_void_p(), c_void_p()
    if call("cuLinkCreate_v2", 0, None, None, byref(state)):
        return None
    ptx = 1
    if call(
        "cuLinkAddData_v2",
        state,
        ptx,
        code,
        c_size_t(len(code) + 1),
        b"setter",
        0,
        None,
        None,
    ):
        return None
    library = 4
    if archive and call(
        "cuLinkAddFile_v2", state, library, archive.encode(), 0, None, None
    ):
        return None
    cubin, size = c_void_p(), c_size_t()
    if call("cuLinkComplete", state, byref(cubin), byref(size)):
        return None
    if call("cuModuleLoadData", byref(module), cubin):
        return None
    return module


def setter_module() -> c_void_p | None:
    module = load(SETTER, "setter")
    if module:
        return module
    failures.append("the setter's PTX does not load by cuModuleLoadDataEx")
    for version, target in ((b"8.3", b"sm_80"), (b"8.5", b"sm_90"), (b"9.0", b"sm_90")):
        code = SETTER.replace(b".version 7.0", b".version " + version)
        code = code.replace(b".target sm_70", b".target " + target)
        module = load(code, f"setter, {version.decode()} {target.decode()}")
        if module:
            return module
    module = link(SETTER, None)
    for archive in glob.glob("/usr/local/cuda*/**/libcudadevrt.a", recursive=True):
        module = module or link(SETTER, archive)
    library = c_void_p()
    print("setter: cuLibraryLoadData")
    if (
        not module
        and call(
            "cuLibraryLoadData", byref(library), SETTER, None, None, 0, None, None, 0
        )
        == 0
    ):
        module = c_void_p()
        if call("cuLibraryGetModule", byref(module), library):
            module = None
    return module


def function(module: c_void_p, name: bytes) -> c_void_p:
    found = c_void_p()
    call("cuModuleGetFunction", byref(found), module, name, quiet=True)
    return found


context = c_void_p()
keep: list[object] = []


def pack(*values: int) -> ctypes.Array:
    words = [c_uint64(v) for v in values]
    pointers = (c_void_p * len(words))(
        *[ctypes.cast(byref(w), c_void_p) for w in words]
    )
    keep.extend([words, pointers])
    return pointers


def kernel_node(
    graph: c_void_p, after: c_void_p | None, func: c_void_p, *values: int
) -> c_void_p:
    params = KernelNode(func, 1, 1, 1, 1, 1, 1, 0, ctypes.cast(pack(*values), c_void_p))
    node = c_void_p()
    dependencies = (c_void_p * 1)(after) if after else None
    call(
        "cuGraphAddKernelNode_v2",
        byref(node),
        graph,
        dependencies,
        c_size_t(bool(after)),
        byref(params),
        quiet=True,
    )
    return node


def condition(graph: c_void_p, flags: int = 0) -> int:
    handle = c_uint64()
    call("cuGraphConditionalHandleCreate", byref(handle), graph, context, 0, flags)
    return handle.value


def condition_node(
    graph: c_void_p, after: c_void_p | None, handle: int, kind: int, size: int = 1
) -> tuple[c_void_p, list[c_void_p], int]:
    params = ConditionNode(type=13, handle=handle, kind=kind, size=size, ctx=context)
    node = c_void_p()
    dependencies = (c_void_p * 1)(after) if after else None
    result = call(
        "cuGraphAddNode_v2",
        byref(node),
        graph,
        dependencies,
        None,
        c_size_t(bool(after)),
        byref(params),
    )
    if result:
        result = call(
            "cuGraphAddNode",
            byref(node),
            graph,
            dependencies,
            c_size_t(bool(after)),
            byref(params),
        )
    bodies = [c_void_p(params.bodies[i]) for i in range(size)] if result == 0 else []
    return node, bodies, result


def memory(value: int) -> int:
    pointer = c_uint64()
    call("cuMemAlloc_v2", byref(pointer), c_size_t(256), quiet=True)
    call("cuMemcpyHtoD_v2", pointer, byref(c_uint64(value)), c_size_t(8), quiet=True)
    return pointer.value


def put(pointer: int, value: int) -> None:
    call(
        "cuMemcpyHtoD_v2",
        c_uint64(pointer),
        byref(c_uint64(value)),
        c_size_t(8),
        quiet=True,
    )


def get(pointer: int) -> int:
    value = c_uint()
    call("cuCtxSynchronize", quiet=True)
    call("cuMemcpyDtoH_v2", byref(value), c_uint64(pointer), c_size_t(4), quiet=True)
    return value.value


def new_graph() -> c_void_p:
    graph = c_void_p()
    call("cuGraphCreate", byref(graph), 0, quiet=True)
    return graph


def instantiate(graph: c_void_p) -> c_void_p | None:
    exec_ = c_void_p()
    return (
        None
        if call("cuGraphInstantiateWithFlags", byref(exec_), graph, c_uint64(0))
        else exec_
    )


def expect(what: str, got: int, want: int, *, needed: bool = True) -> None:
    print(f"  {what}: {got}, expected {want}{'' if got == want else '  <== WRONG'}")
    if got != want and needed:
        failures.append(what)


def main() -> None:
    version, device = c_int(), c_int()
    call("cuInit", 0)
    call("cuDriverGetVersion", byref(version))
    print("driver", version.value)
    call("cuDeviceGet", byref(device), 0)
    call("cuDevicePrimaryCtxRetain", byref(context), device)
    call("cuCtxSetCurrent", context)
    stream = c_void_p()
    call("cuStreamCreate", byref(stream), 1)

    module, steps = setter_module(), load(STEP, "step")
    if not module or not steps:
        failures.append("no setter could be loaded by any way")
        return
    setter, step = function(module, b"set_condition"), function(steps, b"step")

    print("while, made node by node")
    x, limit, flag = memory(0), memory(10), memory(1)
    graph = new_graph()
    handle = condition(graph)
    first = kernel_node(graph, None, setter, handle, flag, 0)
    _, bodies, result = condition_node(graph, first, handle, 1)
    if result:
        failures.append("no while node")
        return
    inner = kernel_node(bodies[0], None, step, x, limit, flag)
    kernel_node(bodies[0], inner, setter, handle, flag, 0)
    exec_ = instantiate(graph)
    if not exec_:
        failures.append("the graph with a while node is not instantiated")
        return
    for start, bound in ((0, 10), (0, 1), (5, 7), (0, 20000)):
        put(x, start), put(limit, bound), put(flag, 1)
        call("cuGraphLaunch", exec_, stream, quiet=True)
        expect(f"from {start} below {bound}", get(x), bound)
    put(x, 3), put(flag, 0)
    call("cuGraphLaunch", exec_, stream, quiet=True)
    expect("no round", get(x), 3)

    print("parameters of a node outside of the body")
    other = memory(0)
    params = KernelNode(
        setter, 1, 1, 1, 1, 1, 1, 0, ctypes.cast(pack(handle, other, 0), c_void_p)
    )
    call("cuGraphExecKernelNodeSetParams_v2", exec_, first, byref(params))
    put(x, 3), put(flag, 1)
    call("cuGraphLaunch", exec_, stream, quiet=True)
    expect("the renewed flag is false", get(x), 3)
    put(other, 1), put(x, 0), put(limit, 4)
    call("cuGraphLaunch", exec_, stream, quiet=True)
    expect("the renewed flag is true", get(x), 4)

    print("two executables of one graph")
    second = instantiate(graph)
    for which in (exec_, second, exec_):
        put(x, 0), put(limit, 6), put(flag, 1)
        call("cuGraphLaunch", which, stream, quiet=True)
        expect("rounds", get(x), 6, needed=False)

    print("if and else by two nodes")
    x, y = memory(0), memory(0)
    graph = new_graph()
    yes, no = condition(graph), condition(graph)
    a = kernel_node(graph, None, setter, yes, flag, 0)
    b = kernel_node(graph, a, setter, no, flag, 1)
    n1, then, r1 = condition_node(graph, b, yes, 0)
    _, otherwise, r2 = condition_node(graph, n1, no, 0)
    if not r1 and not r2:
        kernel_node(then[0], None, step, x, limit, other)
        kernel_node(otherwise[0], None, step, y, limit, other)
        exec_ = instantiate(graph)
        for value in (1, 0, 0, 1, 1):
            put(flag, value)
            call("cuGraphLaunch", exec_, stream, quiet=True)
            call("cuCtxSynchronize", quiet=True)
        expect("then", get(x), 3)
        expect("else", get(y), 2)
    else:
        failures.append("no if nodes")

    print("if and else by one node of size 2")
    graph = new_graph()
    handle = condition(graph)
    a = kernel_node(graph, None, setter, handle, flag, 0)
    condition_node(graph, a, handle, 0, 2)

    print("an empty body, with an empty node and without")
    for empty in (True, False):
        graph = new_graph()
        handle = condition(graph)
        a = kernel_node(graph, None, setter, handle, flag, 0)
        n, bodies, result = condition_node(graph, a, handle, 0)
        if not result and empty:
            call("cuGraphAddEmptyNode", byref(c_void_p()), bodies[0], None, c_size_t(0))
        exec_ = instantiate(graph)
        if exec_:
            put(flag, 1)
            call("cuGraphLaunch", exec_, stream)
            call("cuCtxSynchronize")
        elif empty:
            failures.append("a body of an empty node")

    print("a while in a while; the body holds a captured graph as a node")
    x, limit, inner_flag, flag = memory(0), memory(5), memory(1), memory(1)
    y, outer_limit = memory(0), memory(4)
    captured = c_void_p()
    call("cuStreamBeginCapture_v2", stream, 1)
    call(
        "cuLaunchKernel",
        step,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        stream,
        pack(y, outer_limit, flag),
        None,
    )
    call("cuMemsetD32Async", c_uint64(x), 0, c_size_t(1), stream)
    call("cuMemsetD8Async", c_uint64(inner_flag), 1, c_size_t(1), stream)
    call("cuStreamEndCapture", stream, byref(captured))
    graph = new_graph()
    outer = condition(graph)
    a = kernel_node(graph, None, setter, outer, flag, 0)
    n, bodies, result = condition_node(graph, a, outer, 1)
    if result:
        failures.append("no outer while")
        return
    body, child = bodies[0], c_void_p()
    if call(
        "cuGraphAddChildGraphNode", byref(child), body, None, c_size_t(0), captured
    ):
        failures.append("a body does not take a child graph")
        return
    inside = condition(body)
    b = kernel_node(body, child, setter, inside, inner_flag, 0)
    n, bodies, result = condition_node(body, b, inside, 1)
    if result:
        failures.append("no inner while")
        return
    c = kernel_node(bodies[0], None, step, x, limit, inner_flag)
    kernel_node(bodies[0], c, setter, inside, inner_flag, 0)
    kernel_node(body, n, setter, outer, flag, 0)
    exec_ = instantiate(graph)
    if not exec_:
        failures.append("nested loops are not instantiated")
        return
    for _ in range(3):
        put(y, 0), put(x, 77), put(flag, 1)
        call("cuGraphLaunch", exec_, stream, quiet=True)
        expect("outer rounds", get(y), 4)
        expect("inner rounds of the last", get(x), 5)

    print("a conditional node in a captured stream (not relied on)")
    status, identity, graph = c_int(), c_uint64(), c_void_p()
    nodes, count = ctypes.POINTER(c_void_p)(), c_size_t()
    call("cuStreamBeginCapture_v2", stream, 1)
    call(
        "cuStreamGetCaptureInfo_v2",
        stream,
        byref(status),
        byref(identity),
        byref(graph),
        byref(nodes),
        byref(count),
    )
    handle = condition(graph)
    call(
        "cuLaunchKernel",
        setter,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        stream,
        pack(handle, flag, 0),
        None,
    )
    call(
        "cuStreamGetCaptureInfo_v2",
        stream,
        byref(status),
        byref(identity),
        byref(graph),
        byref(nodes),
        byref(count),
    )
    n, bodies, result = condition_node(
        graph, c_void_p(nodes[0]) if count.value else None, handle, 0
    )
    if not result:
        call(
            "cuStreamUpdateCaptureDependencies",
            stream,
            (c_void_p * 1)(n),
            c_size_t(1),
            1,
        )
    call("cuStreamEndCapture", stream, byref(graph))


main()
print("failures:", failures or "none")
sys.exit(bool(failures))
