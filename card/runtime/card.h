// State and helpers that the files of the card share. card.c includes them all, so the card is one unit.
//
// Memory of a card is host memory, mapped when it is allocated, so the CPU can read a pointer of a card. All work is
// done when a call returns. One mutex guards ranges, pools and the bytes of cards.
#pragma once
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define RUNTIME EXPORT cudaError_t
#define DRIVER EXPORT CUresult
// Another name of a function, with the same arguments: most of the driver's functions are the runtime's, with the same
// numbers of errors.
#define SAME(name, as) __asm__(".globl " #name "\n.set " #name ", " #as);
// Functions that do nothing and succeed, with any arguments.
#define NOTHING(name) SAME(name, paper_done)
// Writes a result, and returns success.
#define GIVE(out, value) (*(out) = (value), cudaSuccess)

#define MAX_CARDS 16
// The driver maps memory in pieces of this size, so every allocation is charged whole pieces.
#define PIECE ((size_t)2 << 20)
#define OWN_PAGES (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct {
  // Bytes allocated by this process, and bytes held by other processes.
  size_t used_bytes, taken_bytes;
  int has_context;
} cards[MAX_CARDS];

typedef struct {
  int card;
  uint64_t used, used_high, reserved, reserved_high, threshold;
} Pool;

// A range of addresses that CUDA can look up.
typedef struct {
  uintptr_t address;
  size_t bytes, charged_bytes;
  int card;
  enum cudaMemoryType type;
  // The pool of the memory, if it came from one. A cached range is free, but still charged to the card.
  Pool *pool;
  int is_cached;
} Range;

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
