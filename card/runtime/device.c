// Cards, the card of a thread, and errors.
#include "card.h"

// The card of this thread's current context plus one; 0 where the thread has none.
static __thread int bound;
static __thread cudaError_t last_error;
// Set when a kernel's assertion has failed: from then on only queries of cards and contexts succeed.
static cudaError_t sticky_error;

static void bind_card(int card) {
  bound = card + 1;
  if (bound) cards[card].has_context = 1;
}
// The card of this thread. If the thread has none, the context of card 0 becomes current.
static int this_card(void) {
  if (!bound) bind_card(0);
  return bound - 1;
}

// Records an error for cudaGetLastError, and returns it.
static cudaError_t ended(cudaError_t error) {
  if (sticky_error) error = sticky_error;
  if (error) last_error = error;
  return error;
}
RUNTIME paper_done(void) { return ended(cudaSuccess); }

// Called where a kernel would have asserted on a real card.
EXPORT void paper_assert(void) { sticky_error = cudaErrorAssert; }

static int is_card(int card) { return card >= 0 && card < settings.cards; }
static cudaError_t no_card(cudaError_t error) { return last_error = error; }

RUNTIME cudaGetDeviceCount(int *count) {
  *count = settings.cards;
  return settings.cards ? cudaSuccess : no_card(cudaErrorNoDevice);
}
RUNTIME cudaGetDevice(int *card) { return GIVE(card, bound ? bound - 1 : 0); }
RUNTIME cudaSetDevice(int card) {
  if (!is_card(card)) return no_card(cudaErrorInvalidDevice);
  bind_card(card);
  return cudaSuccess;
}
RUNTIME cudaDriverGetVersion(int *version) { return GIVE(version, CUDART_VERSION); }
SAME(cudaRuntimeGetVersion, cudaDriverGetVersion)
RUNTIME cudaDeviceCanAccessPeer(int *can, int one, int other) { return GIVE(can, one != other); }
NOTHING(cudaDeviceEnablePeerAccess)
RUNTIME cudaDeviceGetPCIBusId(char *out, int size, int card) {
  snprintf(out, (size_t)size, "0000:%02X:00.0", card + 1);
  return cudaSuccess;
}
RUNTIME cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}

// Figures of an A100 and of an H100, by which libtorch chooses kernels and the sizes of grids.
static int multiprocessors(void) { return settings.capability >= 90 ? 132 : 108; }
static int shared_bytes(void) { return settings.capability >= 90 ? 233472 : 167936; }
static int cache_bytes(void) { return settings.capability >= 90 ? 50 << 20 : 40 << 20; }

static int attribute_of(int attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 0x7fffffff;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 49152;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return shared_bytes() - 1024;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return shared_bytes();
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
    case cudaDevAttrMultiProcessorCount: return multiprocessors();
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return 32;
    case cudaDevAttrComputeCapabilityMajor: return settings.capability / 10;
    case cudaDevAttrComputeCapabilityMinor: return settings.capability % 10;
    case cudaDevAttrL2CacheSize: return cache_bytes();
    case cudaDevAttrCooperativeLaunch: case cudaDevAttrUnifiedAddressing: case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrConcurrentKernels: case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return 1;
    default: return 0;
  }
}
RUNTIME cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr attribute, int card) {
  if (!is_card(card)) return no_card(cudaErrorInvalidDevice);
  return GIVE(out, attribute_of(attribute));
}

RUNTIME cudaGetDeviceProperties(struct cudaDeviceProp *out, int card) {
  if (!is_card(card)) return no_card(cudaErrorInvalidDevice);
  *out = (struct cudaDeviceProp){
      .name = "Paper Card (host memory, no kernels)", .uuid.bytes = "paper-card-0000", .pciBusID = card + 1,
      .major = settings.capability / 10, .minor = settings.capability % 10,
      .totalGlobalMem = settings.total_bytes, .totalConstMem = 65536, .l2CacheSize = cache_bytes(),
      .multiProcessorCount = multiprocessors(), .maxBlocksPerMultiProcessor = 32, .maxThreadsPerMultiProcessor = 2048,
      .maxThreadsPerBlock = 1024, .maxThreadsDim = {1024, 1024, 64}, .maxGridSize = {0x7fffffff, 65535, 65535},
      .sharedMemPerBlock = 49152, .sharedMemPerBlockOptin = (size_t)shared_bytes() - 1024, .reservedSharedMemPerBlock = 1024,
      .sharedMemPerMultiprocessor = (size_t)shared_bytes(), .regsPerBlock = 65536, .regsPerMultiprocessor = 65536,
      .warpSize = 32, .memPitch = 0x7fffffff, .textureAlignment = 512, .texturePitchAlignment = 32,
      .asyncEngineCount = 3, .memoryBusWidth = 5120, .canMapHostMemory = 1, .concurrentKernels = 1, .unifiedAddressing = 1,
      .managedMemory = 1, .streamPrioritiesSupported = 1, .cooperativeLaunch = 1, .memoryPoolsSupported = 1,
  };
  out->uuid.bytes[15] = (char)card;
  return cudaSuccess;
}

// The errors that this card returns; runtime and driver share the numbers.
static const struct {
  int code;
  const char *runtime, *driver, *text;
} errors[] = {
    {0, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {600, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    {710, "cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"},
};
static int row_of(int code) {
  int row = 0, last = sizeof errors / sizeof *errors - 1;
  while (row < last && errors[row].code != code) row++;
  return row;
}

RUNTIME cudaGetLastError(void) {
  cudaError_t error = last_error;
  last_error = sticky_error;
  return error;
}
RUNTIME cudaPeekAtLastError(void) { return last_error; }
EXPORT const char *cudaGetErrorName(cudaError_t error) { return errors[row_of((int)error)].runtime; }
EXPORT const char *cudaGetErrorString(cudaError_t error) { return errors[row_of((int)error)].text; }
DRIVER cuGetErrorName(CUresult error, const char **out) { return GIVE(out, errors[row_of((int)error)].driver); }
DRIVER cuGetErrorString(CUresult error, const char **out) { return GIVE(out, errors[row_of((int)error)].text); }
