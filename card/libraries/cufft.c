#include "answers.h"
int cufftCreate(int *handle) { return GIVE(handle, 1); }
int cufftXtMakePlanMany(int handle, int rank, void *n, void *in_embed, long long in_stride, long long in_distance, int in_type,
                        void *out_embed, long long out_stride, long long out_distance, int out_type, long long batch,
                        size_t *work_bytes, int type) {
  return GIVE(work_bytes, 0);
}
