// libcudart.so.13, and the functions of libcuda.so.1: the paper card. See README.md.
#include "card.h"

#include "settings.c"
#include "device.c"
#include "memory.c"
#include "pool.c"
#include "virtual.c"
#include "stream.c"
#include "kernel.c"
#include "driver.c"
