// The driver's functions that libtorch and cudarc call.
#include "card.h"

// A primary context is the number of its card plus this.
#define CONTEXT 0x100
static CUcontext context_of(int card) { return card < 0 ? NULL : (CUcontext)(uintptr_t)(CONTEXT + card); }

DRIVER cuInit(unsigned flags) { return settings.cards ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE; }
SAME(cuDriverGetVersion, cudaDriverGetVersion)
SAME(cuDeviceGetCount, cudaGetDeviceCount)
SAME(cuDeviceGetAttribute, cudaDeviceGetAttribute)
DRIVER cuDeviceGet(CUdevice *out, int card) {
  *out = card;
  return is_card(card) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
DRIVER cuDeviceGetName(char *out, int size, CUdevice card) {
  struct cudaDeviceProp properties;
  cudaError_t error = cudaGetDeviceProperties(&properties, card);
  if (!error) snprintf(out, (size_t)size, "%s", properties.name);
  return error;
}
DRIVER cuDeviceTotalMem(size_t *out, CUdevice card) { return GIVE(out, settings.total_bytes); }

DRIVER cuDevicePrimaryCtxGetState(CUdevice card, unsigned *flags, int *is_active) {
  *flags = 0;
  return GIVE(is_active, cards[card].has_context);
}
DRIVER cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice card) {
  cards[card].has_context = 1;
  return GIVE(out, context_of(card));
}
DRIVER cuCtxGetCurrent(CUcontext *out) { return GIVE(out, context_of(bound - 1)); }
DRIVER cuCtxSetCurrent(CUcontext context) {
  bind_card(context ? (int)((uintptr_t)context - CONTEXT) : -1);
  return CUDA_SUCCESS;
}
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuCtxSetFlags)
SAME(cuCtxSynchronize, cudaDeviceSynchronize)
SAME(cuCtxGetStreamPriorityRange, cudaDeviceGetStreamPriorityRange)

SAME(cuMemGetInfo_v2, cudaMemGetInfo)
SAME(cuMemAlloc_v2, cudaMalloc)
SAME(cuMemAllocManaged, cudaMalloc)
SAME(cuMemFree_v2, cudaFree)
SAME(cuMemHostAlloc, cudaHostAlloc)
SAME(cuMemFreeHost, cudaFreeHost)
SAME(cuMemAllocAsync, cudaMallocAsync)
SAME(cuMemFreeAsync, cudaFreeAsync)
SAME(cuDeviceGetDefaultMemPool, cudaDeviceGetDefaultMemPool)
SAME(cuDeviceGetMemPool, cudaDeviceGetDefaultMemPool)
SAME(cuMemPoolGetAttribute, cudaMemPoolGetAttribute)
SAME(cuMemPoolSetAttribute, cudaMemPoolSetAttribute)
SAME(cuMemPoolTrimTo, cudaMemPoolTrimTo)

SAME(cuMemcpyHtoD_v2, cudaMemcpy)
SAME(cuMemcpyDtoH_v2, cudaMemcpy)
SAME(cuMemcpyDtoD_v2, cudaMemcpy)
SAME(cuMemcpyHtoDAsync_v2, cudaMemcpy)
SAME(cuMemcpyDtoHAsync_v2, cudaMemcpy)
SAME(cuMemcpyDtoDAsync_v2, cudaMemcpy)
DRIVER cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                         CUstream stream) {
  return cudaMemcpy((void *)to, (void *)from, bytes, cudaMemcpyDefault);
}
SAME(cuMemsetD8_v2, cudaMemset)
SAME(cuMemsetD8Async, cudaMemset)
DRIVER cuMemsetD32Async(CUdeviceptr memory, unsigned value, size_t count, CUstream stream) {
  for (size_t i = 0; i < count; i++) ((unsigned *)memory)[i] = value;
  return paper_done();
}

SAME(cuStreamCreate, cudaStreamCreate)
SAME(cuStreamCreateWithPriority, cudaStreamCreateWithPriority)
SAME(cuStreamDestroy_v2, cudaStreamDestroy)
SAME(cuStreamSynchronize, cudaStreamSynchronize)
SAME(cuStreamIsCapturing, cudaStreamIsCapturing)
NOTHING(cuStreamWaitEvent)
DRIVER cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned flags) {
  return GIVE((cuuint32_t *)to, value);
}
SAME(cuLaunchHostFunc, cudaLaunchHostFunc)
SAME(cuEventCreate, cudaEventCreateWithFlags)
SAME(cuEventDestroy_v2, cudaEventDestroy)
SAME(cuEventRecord, cudaEventRecord)
SAME(cuEventQuery, cudaEventQuery)
SAME(cuEventSynchronize, cudaEventSynchronize)
SAME(cuEventElapsedTime_v2, cudaEventElapsedTime)

// Modules that are compiled while a program runs: any text loads, any function is found, and nothing runs.
DRIVER cuModuleLoad(CUmodule *out, const char *file) { return GIVE(out, (CUmodule)0x4000); }
SAME(cuModuleLoadData, cuModuleLoad)
SAME(cuModuleLoadDataEx, cuModuleLoad)
SAME(cuModuleGetFunction, cuModuleLoad)
NOTHING(cuModuleUnload)
NOTHING(cuFuncSetAttribute)
NOTHING(cuFuncSetCacheConfig)
NOTHING(cuTensorMapEncodeTiled)
DRIVER cuFuncGetAttribute(int *out, CUfunction_attribute attribute, CUfunction function) {
  return GIVE(out, attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0);
}
SAME(cuOccupancyMaxActiveBlocksPerMultiprocessor, cudaOccupancyMaxActiveBlocksPerMultiprocessor)
SAME(cuLaunchKernel, paper_launch)
SAME(cuLaunchCooperativeKernel, paper_launch)

// If a function has two versions, the newer one is looked up.
RUNTIME cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *status) {
  char newer[128];
  snprintf(newer, sizeof newer, "%s_v2", name);
  Dl_info here;
  dladdr((void *)cudaGetDriverEntryPointByVersion, &here);
  void *library = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *out = dlsym(library, newer);
  if (!*out) *out = dlsym(library, name);
  dlclose(library);
  if (status) *status = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
