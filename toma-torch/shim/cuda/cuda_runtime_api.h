// The names of CUDA that libtorch's headers use, for a compiler without CUDA. None of these functions is called.
#pragma once

#include <cstddef>
#include <cstdint>

using cudaStream_t = struct CUstream_st*;
enum cudaError_t { cudaSuccess, cudaErrorNotReady = 600 };
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed,
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated,
};

namespace c10::cuda {
__attribute__((weak)) void c10_cuda_check_implementation(int32_t, const char*, const char*, uint32_t, bool);
}

extern "C" {
cudaError_t cudaDeviceGetStreamPriorityRange(int*, int*);
const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
// Named in a table of functions, so the linker asks for it.
__attribute__((weak)) cudaError_t cudaMemGetInfo(size_t*, size_t*);
cudaError_t cudaStreamGetPriority(cudaStream_t, int*);
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*);
}
