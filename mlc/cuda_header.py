"""The header of a program for CUDA: C99 and C++, over the driver's own types."""

from __future__ import annotations

from typing import ClassVar

from mlc.c_header import STATUS, Header
from mlc.lazy_dataclass import dataclass
from mlc.version import __version__


@dataclass(frozen=True, kw_only=True)
class CudaHeader(Header):
    """What a header says of a program for a GPU."""

    kernels: int
    state_bytes: int

    @property
    def called_with(self) -> tuple[str, ...]:
        """The first parameters of every function."""
        return f"const {self.name}_program *program", "mlc_cuda_context *context"

    pointer: ClassVar = "CUdeviceptr "
    """What an array is to the program."""

    def declared(self, dtype: str, name: str, const: str = "") -> str:
        """The parameter of an array."""
        return f"CUdeviceptr {name}"

    def text(self) -> str:
        """The header."""
        upper, name = self.name.upper(), self.name
        return "\n".join(
            [
                f"/* {name}: made by mlc {__version__} for {self.about}.",
                "   Arrays, arena and state are memory of the device; link with -lcuda. */",
                f"#ifndef MLC_{upper}_H",
                f"#define MLC_{upper}_H",
                CONTEXT,
                _PROGRAM.format(
                    name=name, upper=upper, kernels=max(1, self.kernels), state=self.state_bytes
                ),
                *self._arena(),
                *self._errors(),
                "",
                *self._described(),
                *self._call(),
                "#ifdef __cplusplus",
                "}",
                "#endif",
                f"#endif /* MLC_{upper}_H */",
                "",
            ]
        )


CONTEXT = f"""#include <cuda.h>
#include <stdint.h>
{STATUS}
#ifndef MLC_CUDA_CONTEXT /* the same in all headers of mlc */
#define MLC_CUDA_CONTEXT 1
/* All zeros is a context without memory, on the default stream. One call at a time uses it. */
typedef struct mlc_cuda_context {{
  CUdeviceptr arena; /* aligned to 256 bytes, the caller's; for calls of one stream */
  int64_t arena_bytes;
  CUstream stream;
  int64_t error_site;  /* 0, or an index into NAME_ERRORS */
  int64_t error_value; /* what was found there; bytes of arena that are needed */
  int64_t error_extent;
  CUresult result; /* what the driver has said */
  int64_t reserved[8];
}} mlc_cuda_context;
#endif"""

_PROGRAM = """typedef struct {name}_program {{
  CUmodule modules[{kernels}];
  CUfunction functions[{kernels}];
  CUdeviceptr state;
}} {name}_program;
/* Bytes on the device, aligned to 256, for errors and constants while the program is loaded. */
#define {upper}_STATE_BYTES INT64_C({state})
/* Loads the kernels into the current context of CUDA, and what `state` holds. */
int32_t {name}_load({name}_program *program, mlc_cuda_context *context, CUdeviceptr state);
/* Starts a call on the context's stream and does not wait for its end, but where the host decides
   by what a kernel has computed. */
int32_t {name}(const {name}_program *program, mlc_cuda_context *context, const CUdeviceptr *args,
    const int64_t *sizes, const CUdeviceptr *outs);
/* Waits for the context's stream; MLC_RUN_TIME_ERROR where a kernel has met an error since. */
int32_t {name}_wait(const {name}_program *program, mlc_cuda_context *context);
int32_t {name}_unload({name}_program *program, mlc_cuda_context *context);"""
