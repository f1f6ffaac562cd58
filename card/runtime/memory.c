// Memory of cards and pinned memory of the host; copies.
#include "card.h"

// Sorted by address.
static Range *ranges;
static size_t range_count, range_capacity;

// The index of the first range that begins after the address.
static size_t index_after(uintptr_t address) {
  size_t low = 0, high = range_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ranges[middle].address > address) high = middle;
    else low = middle + 1;
  }
  return low;
}

static Range *range_at(const void *address) {
  size_t after = index_after((uintptr_t)address);
  if (!after) return NULL;
  Range *range = &ranges[after - 1];
  return (uintptr_t)address < range->address + range->bytes ? range : NULL;
}

static void range_add(Range range) {
  if (range_count == range_capacity) {
    range_capacity = range_capacity * 2 + 64;
    ranges = realloc(ranges, range_capacity * sizeof *ranges);
  }
  size_t at = index_after(range.address);
  memmove(ranges + at + 1, ranges + at, (range_count - at) * sizeof *ranges);
  ranges[at] = range;
  range_count++;
}

static void range_drop(Range *range) {
  memmove(range, range + 1, (size_t)(ranges + range_count - (range + 1)) * sizeof *range);
  range_count--;
}

static int has_room(int card, size_t bytes) {
  size_t held = cards[card].used_bytes + cards[card].taken_bytes;
  return held <= settings.total_bytes && bytes <= settings.total_bytes - held;
}

// A mapping aligned to a piece; null if the host has no memory.
static void *map_pieces(size_t bytes, int protection) {
  char *mapped = mmap(NULL, bytes + PIECE, protection, OWN_PAGES, -1, 0);
  if (mapped == MAP_FAILED) return NULL;
  char *aligned = (char *)round_up((uintptr_t)mapped, PIECE);
  if (aligned > mapped) munmap(mapped, (size_t)(aligned - mapped));
  if (mapped + PIECE > aligned) munmap(aligned + bytes, (size_t)(mapped + PIECE - aligned));
  return aligned;
}

// Fills fresh memory with the poison byte by mapping one file over and over. Pages are copied only when they are
// written, so that gigabytes cost nothing.
static void poison(char *memory, size_t bytes) {
  static int file = -1;
  const size_t most = 32 << 20;
  if (file < 0) {
    file = memfd_create("poison", MFD_CLOEXEC);
    void *bytes_of_file = ftruncate(file, (off_t)most) ? MAP_FAILED : mmap(NULL, most, PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes_of_file == MAP_FAILED) refuse("PAPER_CARD_POISON", "set", "the host has no memory for it");
    memset(bytes_of_file, settings.poison, most);
  }
  for (size_t at = 0; at < bytes; at += most) {
    size_t part = bytes - at < most ? bytes - at : most;
    mmap(memory + at, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0);
  }
}

static void pools_trim(int card);

// Takes memory of a card, and charges it; null if there is no room, or if this allocation was asked to fail. Pools
// return their cached memory before an allocation fails.
static void *take(int card, size_t bytes, Pool *pool) {
  size_t charged = round_up(bytes, PIECE);
  if (!has_room(card, charged)) pools_trim(card);
  void *memory = is_injected() || !has_room(card, charged) ? NULL : map_pieces(charged, PROT_READ | PROT_WRITE);
  if (!memory) return NULL;
  cards[card].used_bytes += charged;
  range_add((Range){(uintptr_t)memory, bytes, charged, card, cudaMemoryTypeDevice, pool, 0});
  if (settings.poison >= 0) poison(memory, charged);
  return memory;
}

// Ends a range; bytes of a card's memory become free again.
static void give_back(Range *range) {
  if (range->type == cudaMemoryTypeDevice) cards[range->card].used_bytes -= range->charged_bytes;
  munmap((void *)range->address, range->charged_bytes);
  range_drop(range);
}

RUNTIME cudaMalloc(void **out, size_t bytes) {
  int card = this_card();
  pthread_mutex_lock(&mutex);
  *out = bytes ? take(card, bytes, NULL) : NULL;
  pthread_mutex_unlock(&mutex);
  return ended(*out || !bytes ? cudaSuccess : cudaErrorMemoryAllocation);
}

static cudaError_t free_of(void *memory, enum cudaMemoryType type) {
  if (!memory) return paper_done();
  pthread_mutex_lock(&mutex);
  Range *range = range_at(memory);
  int is_ours = range && range->address == (uintptr_t)memory && range->type == type && range->charged_bytes;
  if (is_ours) give_back(range);
  pthread_mutex_unlock(&mutex);
  return ended(is_ours ? cudaSuccess : cudaErrorInvalidValue);
}
RUNTIME cudaFree(void *memory) { return free_of(memory, cudaMemoryTypeDevice); }
RUNTIME cudaFreeHost(void *memory) { return free_of(memory, cudaMemoryTypeHost); }

RUNTIME cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
  size_t charged = round_up(bytes ? bytes : 1, 4096);
  void *memory = mmap(NULL, charged, PROT_READ | PROT_WRITE, OWN_PAGES, -1, 0);
  if (memory == MAP_FAILED) return ended(cudaErrorMemoryAllocation);
  int card = this_card();
  pthread_mutex_lock(&mutex);
  range_add((Range){(uintptr_t)memory, bytes, charged, card, cudaMemoryTypeHost, NULL, 0});
  pthread_mutex_unlock(&mutex);
  return GIVE(out, memory);
}

static unsigned long long registered;

RUNTIME cudaHostRegister(void *memory, size_t bytes, unsigned flags) {
  int card = this_card();
  pthread_mutex_lock(&mutex);
  int is_free = !range_at(memory) && !range_at((char *)memory + bytes - 1);
  if (is_free) range_add((Range){(uintptr_t)memory, bytes, 0, card, cudaMemoryTypeHost, NULL, 0}), registered += bytes;
  pthread_mutex_unlock(&mutex);
  return ended(is_free ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}
RUNTIME cudaHostUnregister(void *memory) {
  pthread_mutex_lock(&mutex);
  Range *range = range_at(memory);
  int is_ours = range && range->address == (uintptr_t)memory && range->type == cudaMemoryTypeHost && !range->charged_bytes;
  if (is_ours) registered -= range->bytes, range_drop(range);
  pthread_mutex_unlock(&mutex);
  return ended(is_ours ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
EXPORT unsigned long long paper_registered_bytes(void) { return registered; }

RUNTIME cudaMemGetInfo(size_t *free, size_t *total) {
  int card = this_card();
  pthread_mutex_lock(&mutex);
  size_t held = cards[card].used_bytes + cards[card].taken_bytes;
  *total = settings.total_bytes;
  *free = held < *total ? *total - held : 0;
  pthread_mutex_unlock(&mutex);
  return paper_done();
}

RUNTIME cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer) {
  pthread_mutex_lock(&mutex);
  Range *range = range_at(pointer);
  *out = (struct cudaPointerAttributes){cudaMemoryTypeUnregistered, -2, NULL, (void *)pointer, {0}};
  if (range) *out = (struct cudaPointerAttributes){range->type, range->card, (void *)pointer, (void *)pointer, {0}};
  if (range && range->type == cudaMemoryTypeDevice) out->hostPointer = NULL;
  pthread_mutex_unlock(&mutex);
  return paper_done();
}

RUNTIME cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  if (!sticky_error && bytes) memmove(to, from, bytes);
  return paper_done();
}
SAME(cudaMemcpyAsync, cudaMemcpy)
RUNTIME cudaMemcpyPeerAsync(void *to, int to_card, const void *from, int from_card, size_t bytes, cudaStream_t stream) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
RUNTIME cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                          enum cudaMemcpyKind kind, cudaStream_t stream) {
  for (size_t row = 0; row < height; row++)
    memmove((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
  return paper_done();
}

// Zeros of whole pieces are new pages, so that gigabytes of them cost nothing either.
static void zero(char *memory, size_t bytes) {
  char *from = (char *)round_up((uintptr_t)memory, PIECE), *end = memory + bytes;
  char *to = (char *)((uintptr_t)end / PIECE * PIECE);
  Range *range = range_at(memory);
  int is_private = range && range->type == cudaMemoryTypeDevice && range->charged_bytes;
  if (!is_private || from >= to) from = to = end;
  else mmap(from, (size_t)(to - from), PROT_READ | PROT_WRITE, OWN_PAGES | MAP_FIXED, -1, 0);
  memset(memory, 0, (size_t)(from - memory));
  memset(to, 0, (size_t)(end - to));
}
RUNTIME cudaMemset(void *memory, int value, size_t bytes) {
  if (sticky_error) return paper_done();
  pthread_mutex_lock(&mutex);
  if (value) memset(memory, value, bytes);
  else zero(memory, bytes);
  pthread_mutex_unlock(&mutex);
  return cudaSuccess;
}
SAME(cudaMemsetAsync, cudaMemset)
