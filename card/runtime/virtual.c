// Virtual memory of the driver, of which expandable segments are made: addresses are reserved, and memory is created
// and mapped there. Memory is a file in memory, so that it can be mapped anywhere.
#include "card.h"

typedef struct {
  int file, card, uses;
  size_t bytes;
} Memory;
static struct {
  uintptr_t address;
  Memory *memory;
} *mappings;
static size_t mapping_count;

static void unuse(Memory *memory) {
  if (--memory->uses) return;
  cards[memory->card].used_bytes -= memory->bytes;
  close(memory->file);
  free(memory);
}

DRIVER cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *properties,
                                     CUmemAllocationGranularity_flags option) {
  return GIVE(out, PIECE);
}
DRIVER cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr address, unsigned long long flags) {
  *out = (CUdeviceptr)map_pieces(bytes, PROT_NONE);
  return ended(*out ? cudaSuccess : cudaErrorMemoryAllocation);
}
DRIVER cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  munmap((void *)address, bytes);
  return paper_done();
}

static Memory *make(int card, size_t bytes) {
  if (!has_room(card, bytes)) pools_trim(card);
  if (is_injected() || !has_room(card, bytes)) return NULL;
  int file = memfd_create("paper-card", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, (off_t)bytes)) return NULL;
  Memory *memory = malloc(sizeof *memory);
  *memory = (Memory){file, card, 1, bytes};
  cards[card].used_bytes += bytes;
  return memory;
}
DRIVER cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *properties,
                   unsigned long long flags) {
  pthread_mutex_lock(&mutex);
  *out = (CUmemGenericAllocationHandle)(uintptr_t)make(properties->location.id, bytes);
  pthread_mutex_unlock(&mutex);
  return ended(*out ? cudaSuccess : cudaErrorMemoryAllocation);
}
DRIVER cuMemRelease(CUmemGenericAllocationHandle handle) {
  pthread_mutex_lock(&mutex);
  unuse((Memory *)(uintptr_t)handle);
  pthread_mutex_unlock(&mutex);
  return paper_done();
}

DRIVER cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                unsigned long long flags) {
  Memory *memory = (Memory *)(uintptr_t)handle;
  if (mmap((void *)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->file, (off_t)offset) == MAP_FAILED)
    return ended(cudaErrorInvalidValue);
  pthread_mutex_lock(&mutex);
  memory->uses++;
  mappings = realloc(mappings, (mapping_count + 1) * sizeof *mappings);
  mappings[mapping_count].address = address;
  mappings[mapping_count++].memory = memory;
  range_add((Range){address, bytes, 0, memory->card, cudaMemoryTypeDevice, NULL, 0});
  pthread_mutex_unlock(&mutex);
  return paper_done();
}
DRIVER cuMemUnmap(CUdeviceptr address, size_t bytes) {
  mmap((void *)address, bytes, PROT_NONE, OWN_PAGES | MAP_FIXED, -1, 0);
  pthread_mutex_lock(&mutex);
  for (size_t i = mapping_count; i-- > 0;) {
    if (mappings[i].address < address || mappings[i].address >= address + bytes) continue;
    range_drop(range_at((void *)mappings[i].address));
    unuse(mappings[i].memory);
    mappings[i] = mappings[--mapping_count];
  }
  pthread_mutex_unlock(&mutex);
  return paper_done();
}
// Memory is new when access to it is enabled, so it is poisoned here.
DRIVER cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
  if (mprotect((void *)address, bytes, PROT_READ | PROT_WRITE)) return ended(cudaErrorInvalidValue);
  if (settings.poison >= 0) memset((void *)address, settings.poison, bytes);
  return paper_done();
}

// Memory cannot be shared, neither with other processes nor between cards at one address.
DRIVER paper_unsupported(void) { return CUDA_ERROR_NOT_SUPPORTED; }
SAME(cuMemExportToShareableHandle, paper_unsupported)
SAME(cuMemImportFromShareableHandle, paper_unsupported)
SAME(cuMemGetAllocationPropertiesFromHandle, paper_unsupported)
SAME(cuMemRetainAllocationHandle, paper_unsupported)
SAME(cuMulticastAddDevice, paper_unsupported)
SAME(cuMulticastBindMem, paper_unsupported)
SAME(cuMulticastCreate, paper_unsupported)
SAME(cuMulticastUnbind, paper_unsupported)
