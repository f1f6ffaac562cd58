#include "answers.h"
int cublasGetMathMode(void *handle, int *out) { return GIVE(out, 0); }
int cublasGetPointerMode_v2(void *handle, int *out) { return GIVE(out, 0); }
