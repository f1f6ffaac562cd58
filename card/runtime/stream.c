// Streams, events and the capture of graphs. Work is done when it is called for, so a stream has nothing to wait for;
// an event that is held back looks as if its stream were busy. A captured graph is empty.
#include "card.h"

typedef struct {
  int card, priority, is_capturing;
  unsigned long long capture;
} Stream;
typedef struct {
  struct timespec time;
  int card, is_held;
} Event;

// Null for the default streams, whose handles are small numbers.
static Stream *stream_of(cudaStream_t handle) { return (uintptr_t)handle > 2 ? (Stream *)handle : NULL; }
static int is_capturing(cudaStream_t handle) { return stream_of(handle) && stream_of(handle)->is_capturing; }
static cudaError_t unless_capturing(cudaStream_t handle) {
  return ended(is_capturing(handle) ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

RUNTIME cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
  Stream *stream = calloc(1, sizeof *stream);
  stream->card = this_card();
  stream->priority = priority;
  return GIVE(out, (cudaStream_t)stream);
}
RUNTIME cudaStreamCreate(cudaStream_t *out) { return cudaStreamCreateWithPriority(out, 0, 0); }
RUNTIME cudaStreamDestroy(cudaStream_t handle) {
  free(stream_of(handle));
  return paper_done();
}
RUNTIME cudaStreamQuery(cudaStream_t handle) {
  return holds_events ? ended(cudaErrorNotReady) : unless_capturing(handle);
}
RUNTIME cudaDeviceSynchronize(void) {
  pools_settle(this_card());
  return paper_done();
}
RUNTIME cudaStreamSynchronize(cudaStream_t handle) {
  pools_settle(stream_of(handle) ? stream_of(handle)->card : this_card());
  return unless_capturing(handle);
}
NOTHING(cudaStreamWaitEvent)
RUNTIME cudaStreamGetPriority(cudaStream_t handle, int *out) {
  return GIVE(out, stream_of(handle) ? stream_of(handle)->priority : 0);
}
RUNTIME cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data) {
  function(data);
  return paper_done();
}

RUNTIME cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *out) {
  return GIVE(out, is_capturing(handle) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone);
}
RUNTIME cudaStreamGetCaptureInfo(cudaStream_t handle, enum cudaStreamCaptureStatus *status, unsigned long long *capture,
                                 cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                 size_t *count) {
  if (capture) *capture = stream_of(handle) ? stream_of(handle)->capture : 0;
  if (graph) *graph = (cudaGraph_t)0x2000;
  if (nodes) *nodes = NULL;
  if (edges) *edges = NULL;
  if (count) *count = 0;
  return cudaStreamIsCapturing(handle, status);
}
RUNTIME cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
  static unsigned long long captures;
  Stream *stream = stream_of(handle);
  if (!stream) return ended(cudaErrorStreamCaptureUnsupported);
  stream->is_capturing = 1;
  stream->capture = __sync_add_and_fetch(&captures, 1);
  return paper_done();
}
RUNTIME cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  if (!is_capturing(handle)) return ended(cudaErrorInvalidValue);
  stream_of(handle)->is_capturing = 0;
  return GIVE(graph, (cudaGraph_t)0x2000);
}
NOTHING(cudaThreadExchangeStreamCaptureMode)
RUNTIME cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) {
  return GIVE(out, (cudaGraphExec_t)0x3000);
}
NOTHING(cudaGraphLaunch)
NOTHING(cudaGraphDestroy)
NOTHING(cudaGraphExecDestroy)
// Reports one node, because libtorch warns of graphs without any.
RUNTIME cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) { return GIVE(count, 1); }

RUNTIME cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  Event *event = calloc(1, sizeof *event);
  event->card = this_card();
  return GIVE(out, (cudaEvent_t)event);
}
RUNTIME cudaEventCreate(cudaEvent_t *out) { return cudaEventCreateWithFlags(out, 0); }
RUNTIME cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return paper_done();
}
RUNTIME cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  Event *event = (Event *)handle;
  clock_gettime(CLOCK_MONOTONIC, &event->time);
  event->is_held = holds_events;
  return paper_done();
}
SAME(cudaEventRecordWithFlags, cudaEventRecord)
RUNTIME cudaEventQuery(cudaEvent_t event) {
  return ended(holds_events && ((Event *)event)->is_held ? cudaErrorNotReady : cudaSuccess);
}
// Waiting for an event that is held back releases it.
RUNTIME cudaEventSynchronize(cudaEvent_t handle) {
  Event *event = (Event *)handle;
  event->is_held = 0;
  pools_settle(event->card);
  return paper_done();
}
RUNTIME cudaEventElapsedTime(float *out, cudaEvent_t begun, cudaEvent_t end) {
  const struct timespec *from = &((Event *)begun)->time, *to = &((Event *)end)->time;
  return GIVE(out, (float)(to->tv_sec - from->tv_sec) * 1e3f + (float)(to->tv_nsec - from->tv_nsec) * 1e-6f);
}
