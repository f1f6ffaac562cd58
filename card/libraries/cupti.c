#include "answers.h"
int cuptiGetVersion(uint32_t *out) { return GIVE(out, 130000); }
int cuptiGetResultString(int result, const char **out) { return GIVE(out, "no CUPTI on a paper card"); }
// There is no CUPTI, and there are no more records.
int cuptiSubscribe(void *out, void *callback, void *data) { return 15; }
int cuptiActivityGetNextRecord(void *buffer, size_t size, void **out) { return 12; }
