// Answers of NVIDIA's other libraries, where a status is not enough: results, texts and versions. build.py puts each file
// into the library of its name, and adds functions that return a status to what the file lacks.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Hands a result out with the status of success.
#define GIVE(out, value) (*(out) = (value), 0)
