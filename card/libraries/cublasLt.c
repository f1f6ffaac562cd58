#include "answers.h"
size_t cublasLtGetVersion(void) { return 130002; }
// The heuristic finds one algorithm, which needs no workspace.
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference,
                                   int wanted, void *out, int *count) {
  const size_t bytes_of_result = 96;
  memset(out, 0, bytes_of_result);
  return GIVE(count, 1);
}
