// Preloaded where there is a GPU: the settings of a paper card (card/runtime/settings.c) for the memory that the real
// CUDA runtime gives. The card has at most 16 GiB, and fails where a test asks for it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

enum { SUCCESS = 0, OUT_OF_MEMORY = 2 };
typedef int Malloc(void **, size_t);
typedef int Free(void *);
typedef int GetInfo(size_t *, size_t *);

static const size_t total = (size_t)16 << 30, piece = 2 << 20;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct Range {
  struct Range *next;
  void *address;
  size_t bytes;
} *ranges;
static size_t used, taken;
static unsigned long long mallocs;
static long fails_at, failures;

// The real function.
#define REAL(type, name) ((type *)dlsym(RTLD_NEXT, name))

// Counts an allocation; true if it is one of the injected failures.
static int is_injected(void) {
  mallocs++;
  if (!fails_at || --fails_at) return 0;
  fails_at = --failures > 0;
  return 1;
}

int cudaMalloc(void **out, size_t bytes) {
  size_t charged = (bytes + piece - 1) / piece * piece;
  pthread_mutex_lock(&mutex);
  int fails = is_injected() || used + taken > total || charged > total - used - taken;
  int error = fails ? OUT_OF_MEMORY : REAL(Malloc, "cudaMalloc")(out, bytes);
  struct Range *range = error ? NULL : malloc(sizeof *range);
  if (!error && !range) {
    REAL(Free, "cudaFree")(*out);
    error = OUT_OF_MEMORY;
  }
  if (!error) {
    *range = (struct Range){ranges, *out, charged};
    ranges = range;
    used += charged;
  }
  pthread_mutex_unlock(&mutex);
  return error;
}

int cudaFree(void *address) {
  pthread_mutex_lock(&mutex);
  int error = REAL(Free, "cudaFree")(address);
  for (struct Range **at = &ranges; address && *at; at = &(*at)->next) {
    if ((*at)->address != address) continue;
    struct Range *range = *at;
    used -= range->bytes;
    *at = range->next;
    free(range);
    break;
  }
  pthread_mutex_unlock(&mutex);
  return error;
}

int cudaMemGetInfo(size_t *free, size_t *all) {
  int error = REAL(GetInfo, "cudaMemGetInfo")(free, all);
  if (error) return error;
  pthread_mutex_lock(&mutex);
  size_t held = used + taken, most = held < total ? total - held : 0;
  if (*all > total) *all = total;
  if (*free > most) *free = most;
  pthread_mutex_unlock(&mutex);
  return SUCCESS;
}

// Functions that tests call, found by name.
unsigned long long paper_mallocs(void) {
  pthread_mutex_lock(&mutex);
  unsigned long long count = mallocs;
  pthread_mutex_unlock(&mutex);
  return count;
}
void paper_set_taken(int card, size_t bytes) {
  pthread_mutex_lock(&mutex);
  taken = bytes > total ? total : bytes;
  pthread_mutex_unlock(&mutex);
}
void paper_fail_malloc(long at, long times) {
  pthread_mutex_lock(&mutex);
  fails_at = at;
  failures = times;
  pthread_mutex_unlock(&mutex);
}
