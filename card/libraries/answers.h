// Functions of NVIDIA's other libraries that return more than a status: results, texts and versions. build.py puts each
// file into the library of its name, and adds the missing functions, which return a status.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Writes a result, and returns the status of success.
#define GIVE(out, value) (*(out) = (value), 0)
