#include "answers.h"
int ncclGetVersion(int *out) { return GIVE(out, 22809); }
const char *ncclGetErrorString(int status) { return "no NCCL on a paper card"; }
const char *ncclGetLastError(void *communicator) { return "no NCCL on a paper card"; }
