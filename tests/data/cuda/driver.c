/* A driver of CUDA that runs nothing: memory of the device is the host's, launches are printed. */
#include "cuda.h"
#include <stdio.h>
#include <string.h>

struct CUmod_st { const char *ptx; };
struct CUfunc_st { char name[256]; };
static struct CUmod_st modules[64];
static struct CUfunc_st functions[64];
static int count, refused;

void refuse_after(int calls) { refused = calls; }
static CUresult answer(void) {
  return refused > 0 && --refused == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule *module, const void *ptx) {
  modules[count].ptx = (const char *)ptx;
  *module = &modules[count++];
  return answer();
}
CUresult cuModuleUnload(CUmodule module) {
  printf("unload %d\n", (int)(module - modules));
  return answer();
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  char wanted[300];
  sprintf(wanted, ".entry %.250s(", name);
  *function = &functions[module - modules];
  strcpy((*function)->name, strstr(module->ptx, wanted) ? name : "no such kernel");
  return answer();
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute what, int value) {
  printf("shared %s %d %d\n", function->name, (int)what, value);
  return answer();
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  memcpy((void *)(uintptr_t)to, from, bytes);
  return answer();
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  (void)stream;
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return answer();
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t bytes) {
  memset((void *)(uintptr_t)to, value, bytes);
  return answer();
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  (void)stream;
  return cuMemsetD8(to, value, bytes);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t words, CUstream stream) {
  (void)stream;
  for (; words; --words, to += 4) memcpy((void *)(uintptr_t)to, &value, 4);
  return answer();
}
CUresult cuStreamSynchronize(CUstream stream) {
  (void)stream;
  return answer();
}
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned tx,
                        unsigned ty, unsigned tz, unsigned shared, CUstream stream,
                        void **arguments, void **extra) {
  (void)stream, (void)extra, (void)arguments;
  printf("launch %s %u %u %u %u %u %u %u\n", function->name, gx, gy, gz, tx, ty, tz, shared);
  return answer();
}
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType dtype, cuuint32_t rank,
                                void *address, const cuuint64_t *sizes, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *steps, int interleave,
                                int swizzle, int promotion, int fill) {
  cuuint32_t k;
  (void)address, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  if ((uintptr_t)map % 64) return CUDA_ERROR_INVALID_VALUE;
  memset(map, 0, sizeof *map);
  printf("map %d", (int)dtype);
  for (k = 0; k < rank; ++k) printf(" %u of %u by %u", box[k], (unsigned)sizes[k], steps[k]);
  for (k = 0; k + 1 < rank; ++k) printf(" %u", (unsigned)strides[k]);
  printf("\n");
  return answer();
}
