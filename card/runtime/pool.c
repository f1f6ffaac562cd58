// The memory pool of each card. Freed memory stays in it until a synchronization finds more than the threshold, until
// the pool is trimmed, or until an allocation on the card would fail.
//
// A pool of CUDA maps pages together, so that free pages of any allocation serve the next. Here a cached range serves
// as a whole, if it is large enough. Pools that a program creates are not supported.
#include "card.h"

static Pool pools[MAX_CARDS];

static Pool *pool_of(int card) {
  pools[card].card = card;
  return &pools[card];
}

static void change(Pool *pool, int64_t used, int64_t reserved) {
  pool->used += (uint64_t)used;
  pool->reserved += (uint64_t)reserved;
  if (pool->used > pool->used_high) pool->used_high = pool->used;
  if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
}

// A free range of at least these bytes, or null.
static Range *cached(const Pool *pool, size_t bytes) {
  for (Range *range = ranges; range < ranges + range_count; range++)
    if (range->pool == pool && range->is_cached && range->charged_bytes >= bytes) return range;
  return NULL;
}

static void trim(Pool *pool, uint64_t keep) {
  for (Range *range; pool->reserved > keep && (range = cached(pool, 0));) {
    change(pool, 0, -(int64_t)range->charged_bytes);
    give_back(range);
  }
}
static void pools_trim(int card) { trim(pool_of(card), 0); }
// Called where a program waits for a card.
static void pools_settle(int card) {
  pthread_mutex_lock(&mutex);
  trim(pool_of(card), pools[card].threshold);
  pthread_mutex_unlock(&mutex);
}

static void *take_from(Pool *pool, size_t bytes) {
  Range *range = cached(pool, bytes);
  if (!range) {
    void *memory = take(pool->card, bytes, pool);
    if (!memory) return NULL;
    range = range_at(memory);
    change(pool, 0, (int64_t)range->charged_bytes);
  }
  range->is_cached = 0;
  range->bytes = bytes;
  change(pool, (int64_t)bytes, 0);
  return (void *)range->address;
}

RUNTIME cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream) {
  Pool *pool = pool_of(this_card());
  pthread_mutex_lock(&mutex);
  *out = bytes ? take_from(pool, bytes) : NULL;
  pthread_mutex_unlock(&mutex);
  return ended(*out || !bytes ? cudaSuccess : cudaErrorMemoryAllocation);
}

// Memory that is not from a pool may also be freed in the order of a stream.
RUNTIME cudaFreeAsync(void *memory, cudaStream_t stream) {
  pthread_mutex_lock(&mutex);
  Range *range = range_at(memory);
  int is_ours = range && range->address == (uintptr_t)memory && range->pool && !range->is_cached;
  if (is_ours) {
    change(range->pool, -(int64_t)range->bytes, 0);
    range->is_cached = 1;
  }
  pthread_mutex_unlock(&mutex);
  return is_ours ? paper_done() : cudaFree(memory);
}

RUNTIME cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int card) { return GIVE(out, (cudaMemPool_t)pool_of(card)); }
RUNTIME cudaMemPoolGetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute, void *out) {
  const Pool *pool = (const Pool *)handle;
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold: *(uint64_t *)out = pool->threshold; break;
    case cudaMemPoolAttrReservedMemCurrent: *(uint64_t *)out = pool->reserved; break;
    case cudaMemPoolAttrReservedMemHigh: *(uint64_t *)out = pool->reserved_high; break;
    case cudaMemPoolAttrUsedMemCurrent: *(uint64_t *)out = pool->used; break;
    case cudaMemPoolAttrUsedMemHigh: *(uint64_t *)out = pool->used_high; break;
    default: *(int *)out = 1;
  }
  return paper_done();
}
// A high-water mark can only be reset, and then counts anew.
RUNTIME cudaMemPoolSetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute, void *value) {
  Pool *pool = (Pool *)handle;
  if (attribute == cudaMemPoolAttrReleaseThreshold) pool->threshold = *(uint64_t *)value;
  if (attribute == cudaMemPoolAttrReservedMemHigh) pool->reserved_high = pool->reserved;
  if (attribute == cudaMemPoolAttrUsedMemHigh) pool->used_high = pool->used;
  return paper_done();
}
RUNTIME cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  pthread_mutex_lock(&mutex);
  trim((Pool *)pool, keep);
  pthread_mutex_unlock(&mutex);
  return paper_done();
}
NOTHING(cudaMemPoolSetAccess)
