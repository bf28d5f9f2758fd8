"""
Programs for CUDA without Python: a C file with the PTX of the kernels, a table of them and the
launch plan as C over the driver's functions; and a header that says what to call.

Nothing is allocated: arena and state are the caller's, the arguments are memory of the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mlc.c_files import c_arguments, checked_name
from mlc.c_header import in_c
from mlc.cached_property import cached_property
from mlc.cuda_header import CudaHeader
from mlc.device import emit_ptx
from mlc.dialects import abi, launch
from mlc.dialects.dtypes import named_dtype
from mlc.dialects.errors import MlcError
from mlc.dialects.launch import ARENA, ERROR_WORD, FIRST_SIZE, Register, Step, TensorMap
from mlc.dialects.program import entry_function, result_names
from mlc.dialects.target.attribute import as_gpu
from mlc.dialects.target.gpu import STATIC_SHARED_BYTES
from mlc.error_sites import sites_of
from mlc.levels import Levels
from mlc.lowering.gpu import emit_gpu
from mlc.memory import memory_plan_of
from mlc.version import __version__

_ALIGNED = 256
_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "and": "&",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


class CudaProgram:
    """A program for a GPU, as C sees it. MlcError where C cannot have it."""

    def __init__(self, program: Levels) -> None:
        self.target = target = as_gpu(program.options.target, "a program for CUDA")
        self.name = checked_name(program.name)
        self.program = program
        self.loops = program.loops()
        found = emit_gpu(self.loops, target)
        self.plan, self.kernels = found.plan, found.kernels
        self.shared: dict[str, int] = {}
        for step in _walked(self.plan.steps):
            if isinstance(step, launch.Library):
                raise MlcError(
                    f"{self.name} asks Python while it runs, which a program for C cannot"
                )
            if isinstance(step, launch.Launch):
                most = max(self.shared.get(step.kernel, 0), step.shared_bytes)
                self.shared[step.kernel] = most

    def written(self, kind: str, file: str) -> bytes:
        """One kind of file, beside the header of the same stem; `file`: its name."""
        text = self.header() if kind == "header" else self.source(Path(file).stem)
        return text.encode()

    @cached_property
    def constants(self) -> list[int]:
        """Where each constant is in the state, and how long that is."""
        places = [_ALIGNED]
        for block in self.plan.constants:
            places.append(places[-1] + -(-len(block) // _ALIGNED) * _ALIGNED)
        return places

    def header(self) -> str:
        """The header for C99 and C++."""
        function = entry_function(self.program.at_trace())
        names, units = c_arguments(function, self.program.signature)
        return CudaHeader(
            name=self.name,
            about=f"{self.target.name} ({self.target.sm})",
            signature=self.program.signature,
            names=names,
            results=tuple(map(in_c, result_names(function))),
            units=units,
            frozen=0,
            weights=0,
            memory=memory_plan_of(self.loops),
            sites=sites_of(self.loops),
            team="1",
            kernels=len(self.kernels),
            state_bytes=self.constants[-1],
        ).text()

    # C --------------------------------------------------------------------------------------------

    def source(self, stem: str) -> str:
        """The C file, which includes STEM.h."""
        text = [
            f"/* {self.name}: made by mlc {__version__} for {self.target.name}. */",
            f'#include "{stem}.h"',
            "#ifdef __GNUC__",
            '#pragma GCC diagnostic ignored "-Woverlength-strings"',
            "#endif",
            "",
            "#define ASK(call) \\",
            "  if ((context->result = (call)) != CUDA_SUCCESS) return MLC_CUDA_ERROR",
            "",
            *self._tables(),
            _LOADING.format(
                name=self.name,
                count=len(self.kernels),
                most=STATIC_SHARED_BYTES,
                copies="".join(
                    f"  ASK(cuMemcpyHtoD(state + {at}, constant{k}, sizeof constant{k}));\n"
                    for k, at in enumerate(self.constants[:-1])
                ),
                clear=abi.CTX_ERROR_EXTENT + 8,
                words=(abi.CTX_ERROR_EXTENT + 8) // 8,
                site=abi.CTX_ERROR_SITE // 8,
                value=abi.CTX_ERROR_VALUE // 8,
                extent=abi.CTX_ERROR_EXTENT // 8,
                site_at=abi.CTX_ERROR_SITE,
            ),
            *self._called(),
        ]
        return "\n".join(text)

    def _tables(self) -> Iterator[str]:
        """PTX, kernels and constants."""
        for k, kernel in enumerate(self.kernels):
            yield f"static const char ptx{k}[] = /* {kernel.name} */"
            lines = emit_ptx(kernel.llvm, self.target).splitlines()
            yield "\n".join(f'  "{_quoted(line)}\\n"' for line in lines) + ";"
        for k, block in enumerate(self.plan.constants):
            yield f"static const unsigned char constant{k}[] = {{"
            for at in range(0, len(block), 20):
                yield "  " + "".join(f"{x}," for x in block[at : at + 20])
            yield "};"
        yield "/* The kernels: PTX, name, and bytes of dynamic shared memory. */"
        yield "static const struct { const char *ptx, *name; int shared; } KERNELS[] = {"
        for k, kernel in enumerate(self.kernels):
            yield f'  {{ptx{k}, "{kernel.name}", {self.shared.get(kernel.name, 0)}}},'
        yield "  {0, 0, 0}"
        yield "};"

    def _called(self) -> Iterator[str]:
        """The function that makes a call."""
        steps = _Steps(self)
        body = list(steps.text(self.plan.steps, "  "))
        yield "static inline int64_t floor_div(int64_t a, int64_t b) {"
        yield "  return a / b - (a % b != 0 && (a < 0) != (b < 0));"
        yield "}"
        yield ""
        yield f"int32_t {self.name}(const {self.name}_program *program, mlc_cuda_context *context,"
        yield "    const CUdeviceptr *args, const int64_t *sizes, const CUdeviceptr *outs) {"
        yield "  int64_t arena = (int64_t)context->arena;"
        yield from (f"  int64_t r{register} = 0;" for register in sorted(steps.used))
        yield "  (void)program, (void)args, (void)sizes, (void)outs, (void)arena, (void)floor_div;"
        yield "  context->error_site = 0;"
        yield from body
        yield "  return MLC_OK;"
        yield "}"
        yield ""


class _Steps:
    """The steps of a plan as statements."""

    def __init__(self, program: CudaProgram) -> None:
        self.known = dict(program.plan.known)
        self.plan, self.constants = program.plan, program.constants
        self.numbers = {kernel.name: k for k, kernel in enumerate(program.kernels)}
        self.used = set[Register]()

    def value(self, register: Register) -> str:
        """A register as an expression of 64 bits."""
        plan = self.plan
        if register in self.known:
            return f"INT64_C({self.known[register]})"
        if register == ERROR_WORD:
            return "(int64_t)program->state"
        if register == ARENA:
            return "arena"
        for first, count, text in (
            (FIRST_SIZE, plan.sizes, "sizes[{}]"),
            (plan.first_input, plan.inputs, "(int64_t)args[{}]"),
            (plan.first_output, plan.outputs, "(int64_t)outs[{}]"),
        ):
            if first <= register < first + count:
                return text.format(register - first)
        if plan.first_constant <= register < plan.first_constant + len(plan.constants):
            return f"(int64_t)(program->state + {self.constants[register - plan.first_constant]})"
        self.used.add(register)
        return f"r{register}"

    def text(self, steps: Sequence[Step], indent: str) -> Iterator[str]:
        """The statements of steps."""
        for step in steps:
            for line in self._step(step):
                yield f"{indent}{line}"

    def _nested(self, steps: Sequence[Step]) -> list[str]:
        return list(self.text(steps, "  "))

    def _step(self, step: Step) -> Iterator[str]:
        value = self.value
        match step:
            case launch.Compute():
                yield f"{value(step.result)} = {self._computed(step)};"
            case launch.Launch():
                yield from self._launch(step)
            case launch.Branch():
                yield f"if ({value(step.condition)}) {{"
                yield from self._nested(step.then)
                yield "} else {"
                yield from self._nested(step.otherwise)
                yield "}"
            case launch.Loop():
                yield from self._assigned(step.carried, step.inits)
                at = value(step.induction)
                head = f"{at} = {value(step.low)}; {at} < {value(step.high)}"
                yield f"for ({head}; {at} += {value(step.step)}) {{"
                yield from self._nested(step.body)
                yield from (f"  {x}" for x in self._assigned(step.carried, step.yields))
                yield "}"
            case launch.While():
                yield from self._assigned(step.carried, step.inits)
                yield "for (;;) {"
                yield from self._nested(step.test)
                yield f"  if (!{value(step.condition)}) break;"
                yield from self._nested(step.body)
                yield from (f"  {x}" for x in self._assigned(step.carried, step.yields))
                yield "}"
            case launch.Reserve():
                needed = value(step.arena_bytes)
                yield f"if (context->arena_bytes < {needed}) {{"
                yield f"  context->error_value = {needed};"
                yield "  return MLC_OUT_OF_MEMORY;"
                yield "}"
            case launch.ReadNumber():
                yield "{"
                yield f"  int{8 * step.size_bytes}_t number;"
                yield f"  ASK(cuMemcpyDtoHAsync(&number, (CUdeviceptr){value(step.address)},"
                yield "      sizeof number, context->stream));"
                yield "  ASK(cuStreamSynchronize(context->stream));"
                yield f"  {value(step.result)} = number;"
                yield "}"
            case launch.WriteNumber():
                at, number = f"(CUdeviceptr){value(step.address)}", f"(uint64_t){value(step.value)}"
                for place, word in ((at, number), (f"{at} + 4", f"({number} >> 32)")):
                    yield f"ASK(cuMemsetD32Async({place}, (unsigned){word}, 1, context->stream));"
            case launch.Fail():
                yield f"context->error_site = {step.site};"
                yield f"context->error_value = {value(step.value)};"
                yield f"context->error_extent = {value(step.extent)};"
                yield "return MLC_RUN_TIME_ERROR;"
            case launch.Library():
                raise AssertionError("refused before")

    def _computed(self, step: launch.Compute) -> str:
        operands = [self.value(x) for x in step.operands]
        match step.op:
            case "select":
                condition, x, y = operands
                return f"{condition} ? {x} : {y}"
            case "div":
                return f"floor_div({', '.join(operands)})"
            case "min" | "max":
                x, y = operands
                return f"{x} {'<' if step.op == 'min' else '>'} {y} ? {x} : {y}"
            case _:
                x, y = operands
                return f"{x} {_SIGNS[step.op]} {y}"

    def _assigned(self, targets: Sequence[Register], sources: Sequence[Register]) -> Iterator[str]:
        """All at once."""
        pairs = [(self.value(x), self.value(y)) for x, y in zip(targets, sources, strict=True)]
        pairs = [(x, y) for x, y in pairs if x != y]
        if len(pairs) == 1:
            yield f"{pairs[0][0]} = {pairs[0][1]};"
        elif pairs:
            taken = ", ".join(f"t{k} = {y}" for k, (_, y) in enumerate(pairs))
            given = " ".join(f"{x} = t{k};" for k, (x, _) in enumerate(pairs))
            yield f"{{ const int64_t {taken}; {given} }}"

    def _launch(self, step: launch.Launch) -> Iterator[str]:
        grid, block = ([self._count(x) for x in xs] for xs in (step.grid, step.block))
        maps = [x for x in step.arguments if isinstance(x, TensorMap)]
        some = " && ".join(f"{x} > 0" for x in dict.fromkeys(grid) if not x.isdigit())
        yield f"if ({some or 1}) {{ /* {step.kernel} */"
        if maps:  # on 64 bytes
            yield f"  uint64_t room[{16 * len(maps) + 8}];"
            yield "  uint64_t *maps = (uint64_t *)(((uintptr_t)room + 63) / 64 * 64);"
        words = list[str]()
        places = list[str]()
        for x in step.arguments:
            if isinstance(x, TensorMap):
                at = f"maps + {16 * maps.index(x)}"
                places.append(at)
                yield from (f"  {line}" for line in self._map(x, at))
            else:
                places.append(f"words + {len(words)}")
                words.append(f"(uint64_t){self.value(x)}")
        yield f"  uint64_t words[] = {{{', '.join(words) or '0'}}};"
        yield f"  void *arguments[] = {{{', '.join(places) or '0'}}};"
        sizes = ", ".join(x if x.isdigit() else f"(unsigned){x}" for x in (*grid, *block))
        function = f"program->functions[{self.numbers[step.kernel]}]"
        yield "  (void)words;"
        yield f"  ASK(cuLaunchKernel({function}, {sizes},"
        yield f"      {step.shared_bytes}, context->stream, arguments, NULL));"
        yield "}"

    def _count(self, register: Register) -> str:
        """Of blocks or threads: a number where it is known to be positive."""
        known = self.known.get(register, 0)
        return str(known) if known > 0 else self.value(register)

    def _map(self, x: TensorMap, at: str) -> Iterator[str]:
        """What tells the copy engine of an array. SOURCE: cuda.h, cuTensorMapEncodeTiled"""
        rank, bytes_of = len(x.sizes), named_dtype(x.dtype).bytes
        sizes = ", ".join(f"(cuuint64_t){self.value(n)}" for n in reversed(x.sizes))
        strides = [f"(cuuint64_t){self.value(n)} * {bytes_of}" for n in reversed(x.strides)]
        yield "{"
        yield f"  const cuuint64_t sizes_[] = {{{sizes}}};"
        yield f"  const cuuint64_t strides[] = {{{', '.join(strides) or 0}}};"
        box = ", ".join(map(str, reversed(x.box)))
        yield f"  const cuuint32_t box[] = {{{box}}}, steps[] = {{{', '.join('1' * rank)}}};"
        kind = f"CU_TENSOR_MAP_DATA_TYPE_{launch.MAP_DTYPES[x.dtype][0]}"
        yield f"  ASK(cuTensorMapEncodeTiled((CUtensorMap *)({at}), {kind}, {rank},"
        yield f"      (void *)(uintptr_t){self.value(x.address)}, sizes_, strides, box, steps,"
        yield "      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,"
        yield "      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));"
        yield "}"


def _walked(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, with those inside others."""
    for step in steps:
        yield step
        match step:
            case launch.Branch():
                yield from _walked((*step.then, *step.otherwise))
            case launch.Loop():
                yield from _walked(step.body)
            case launch.While():
                yield from _walked((*step.test, *step.body))
            case _:
                pass


def _quoted(line: str) -> str:
    """A line in a string of C."""
    return line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")


_LOADING = """
int32_t {name}_unload({name}_program *program, mlc_cuda_context *context) {{
  int k;
  for (k = 0; k < {count}; ++k) {{
    CUmodule loaded = program->modules[k];
    program->modules[k] = NULL;
    if (loaded != NULL) ASK(cuModuleUnload(loaded));
  }}
  return MLC_OK;
}}

static int32_t load({name}_program *program, mlc_cuda_context *context, CUdeviceptr state) {{
  int k;
  for (k = 0; k < {count}; ++k) {{
    CUfunction *function = &program->functions[k];
    ASK(cuModuleLoadData(&program->modules[k], KERNELS[k].ptx));
    ASK(cuModuleGetFunction(function, program->modules[k], KERNELS[k].name));
    if (KERNELS[k].shared > {most})
      ASK(cuFuncSetAttribute(
          *function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, KERNELS[k].shared));
  }}
  ASK(cuMemsetD8(state, 0, {clear}));
{copies}  return MLC_OK;
}}

int32_t {name}_load({name}_program *program, mlc_cuda_context *context, CUdeviceptr state) {{
  const {name}_program nothing = {{{{NULL}}, {{NULL}}, 0}};
  CUresult said;
  int32_t status;
  *program = nothing;
  program->state = state;
  status = load(program, context, state);
  said = context->result;
  if (status != MLC_OK) {{
    (void){name}_unload(program, context);
    context->result = said;
  }}
  return status;
}}

int32_t {name}_wait(const {name}_program *program, mlc_cuda_context *context) {{
  int64_t words[{words}];
  ASK(cuMemcpyDtoHAsync(words, program->state, sizeof words, context->stream));
  ASK(cuStreamSynchronize(context->stream));
  context->error_site = words[{site}];
  context->error_value = words[{value}];
  context->error_extent = words[{extent}];
  if (words[{site}] == 0) return MLC_OK;
  ASK(cuMemsetD8Async(program->state + {site_at}, 0, 8, context->stream));
  return MLC_RUN_TIME_ERROR;
}}
"""
