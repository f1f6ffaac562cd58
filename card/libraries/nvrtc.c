#include "answers.h"
// Programs compile to nothing.
int nvrtcVersion(int *major, int *minor) { return GIVE(major, 13), GIVE(minor, 0); }
const char *nvrtcGetErrorString(int status) { return "no NVRTC on a paper card"; }
int nvrtcCreateProgram(void **out, const char *source, const char *name, int count, void *headers, void *names) {
  return GIVE(out, malloc(1));
}
int nvrtcDestroyProgram(void **program) { return free(*program), 0; }
int nvrtcGetPTXSize(void *program, size_t *out) { return GIVE(out, 1); }
int nvrtcGetCUBINSize(void *program, size_t *out) { return GIVE(out, 1); }
int nvrtcGetProgramLogSize(void *program, size_t *out) { return GIVE(out, 1); }
int nvrtcGetPTX(void *program, char *out) { return GIVE(out, 0); }
int nvrtcGetCUBIN(void *program, char *out) { return GIVE(out, 0); }
int nvrtcGetProgramLog(void *program, char *out) { return GIVE(out, 0); }
int nvrtcGetLoweredName(void *program, const char *expression, const char **out) { return GIVE(out, "kernel"); }
