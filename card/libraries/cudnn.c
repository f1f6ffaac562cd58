#include "answers.h"
// The version that libtorch is built with, because it refuses others. Nothing else is called: cuDNN is disabled.
size_t cudnnGetVersion(void) { return 91900; }
size_t cudnnGetCudartVersion(void) { return 13000; }
int cudnnGetProperty(int property, int *out) { return GIVE(out, ((int[]){9, 19, 0})[property]); }
const char *cudnnGetErrorString(int status) { return "no cuDNN on a paper card"; }
void cudnnGetLastErrorString(char *out, size_t size) { *out = 0; }
