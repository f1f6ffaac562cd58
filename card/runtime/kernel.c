// Kernels: registered by libtorch's libraries when they are loaded, launched, and never run.
#include "card.h"

EXPORT void **__cudaRegisterFatBinary(void *binary) { return calloc(1, sizeof(void *)); }
EXPORT char __cudaInitModule(void **handle) { return 1; }
NOTHING(__cudaRegisterFatBinaryEnd)
NOTHING(__cudaUnregisterFatBinary)
NOTHING(__cudaRegisterVar)
NOTHING(__cudaRegisterFunction)

// A launch written with <<<>>> pushes its shape here and pops it in the function that launches.
static __thread struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
} pushed;
EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
  pushed.grid = grid;
  pushed.block = block;
  pushed.shared = shared;
  pushed.stream = stream;
  return 0;
}
RUNTIME __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  return GIVE((void **)stream, pushed.stream);
}

RUNTIME paper_launch(void) {
  __sync_fetch_and_add(&launches, 1);
  return paper_done();
}
SAME(cudaLaunchKernel, paper_launch)
SAME(__cudaLaunchKernel, paper_launch)
SAME(cudaLaunchCooperativeKernel, paper_launch)
SAME(cudaLaunchKernelExC, paper_launch)
RUNTIME __cudaGetKernel(cudaKernel_t *out, const void *function) { return GIVE(out, (cudaKernel_t)function); }

NOTHING(cudaFuncSetAttribute)
RUNTIME cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function) {
  int version = settings.capability;
  return GIVE(out, ((struct cudaFuncAttributes){.maxThreadsPerBlock = 1024, .numRegs = 32, .binaryVersion = version,
                                                .ptxVersion = version, .maxDynamicSharedSizeBytes = 49152}));
}
// Blocks are limited by threads alone, as if no kernel needed many registers.
RUNTIME cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, const void *function, int threads, size_t shared) {
  int blocks = threads > 0 ? 2048 / threads : 1;
  return GIVE(out, blocks > 32 ? 32 : blocks < 1 ? 1 : blocks);
}
SAME(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cudaOccupancyMaxActiveBlocksPerMultiprocessor)
RUNTIME cudaGetSymbolAddress(void **out, const void *symbol) { return GIVE(out, (void *)symbol); }
NOTHING(cudaMemcpyToSymbol)
