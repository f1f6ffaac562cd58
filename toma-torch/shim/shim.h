// Functions of libtorch that toma-torch needs and tch does not offer.
//
// Functions that can fail return a toma_code, and fill `error` unless it is TOMA_OK. No function throws.
//
// # Why
//
// Each file includes c10 and only the few headers of ATen and autograd that it needs. c10 knows every kind of device
// and needs no CUDA headers.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum toma_code : int32_t {
  TOMA_OK = 0,
  TOMA_OUT_OF_MEMORY = 1,
  // There is no such device, or libtorch was built or linked without it.
  TOMA_NO_DEVICE = 2,
  // The device exists and does not support the request.
  TOMA_UNSUPPORTED = 3,
  TOMA_OTHER = 4,
};

// Error message of libtorch without its backtrace, truncated if it does not fit.
struct toma_error {
  char message[512];
};

struct toma_device {
  // A c10::DeviceType.
  int32_t type;
  int32_t index;
};

// Counters of an allocator for one device.
struct toma_stats {
  uint64_t allocated_bytes;
  uint64_t reserved_bytes;
  uint64_t peak_allocated_bytes;
  uint64_t peak_reserved_bytes;
  uint64_t allocations;
  uint64_t alloc_retries;
  uint64_t ooms;
};

// One block of a segment.
struct toma_part {
  uint64_t bytes;
  // Bytes that the program requested; the size of the block if it is not allocated.
  uint64_t requested;
  // True for the first block of its segment.
  bool begins;
  bool is_small;
  bool is_used;
  // False if the segment belongs to a stream other than the default one, or to a private pool.
  bool serves_all;
};

// Modes of a thread that change the behavior of operators.
struct toma_modes {
  uint64_t included;
  uint64_t excluded;
  // Modes of autograd, one bit each.
  uint64_t autograd;
  // Number of autocast regions that the thread is in. A dispatch key holds if autocast is on.
  uint64_t autocast_depth;
  // Types that autocast casts to: for the CPU in the lowest byte, for the accelerator in the next.
  uint64_t autocast_dtypes;
};

// Properties of an operator by its name: the columns of `toma_trace::operators` that the shim uses, in the order of
// their bits.
struct toma_named {
  bool gathers, hands_back, detaches, writes_workspace, resizes, calls_others, calls_others_on_cpu, calls_none, copies_operands;
  bool takes_scratch, takes_no_scratch, runs_on_meta, reads_statistics, reduces;
  // A toma_shape_rule.
  uint8_t shape_rule;
};

// `ShapeRule` of `toma_trace::operators`, in the same order.
enum toma_shape_rule : uint8_t {
  TOMA_SHAPE_UNKNOWN,
  TOMA_SHAPE_DROPOUT,
  TOMA_SHAPE_INDEX_SELECT,
  TOMA_SHAPE_EMBEDDING_BACKWARD,
  TOMA_SHAPE_CONVOLUTION,
  TOMA_SHAPE_CONVOLUTION_BACKWARD,
  TOMA_SHAPE_BATCH_NORM,
  TOMA_SHAPE_BATCH_NORM_BACKWARD,
  TOMA_SHAPE_LAYER_NORM,
  TOMA_SHAPE_LAYER_NORM_BACKWARD,
  TOMA_SHAPE_ATTENTION,
  TOMA_SHAPE_ATTENTION_BACKWARD,
  TOMA_SHAPE_INDEX,
  TOMA_SHAPE_MASKED_SELECT,
  TOMA_SHAPE_NON_ZERO,
  TOMA_SHAPE_EFFICIENT_ATTENTION,
  TOMA_SHAPE_EFFICIENT_ATTENTION_BACKWARD,
  TOMA_SHAPE_FLASH_ATTENTION,
  TOMA_SHAPE_FLASH_ATTENTION_BACKWARD,
  TOMA_SHAPE_CUDNN_ATTENTION,
  TOMA_SHAPE_CUDNN_ATTENTION_BACKWARD,
  TOMA_SHAPE_CUDNN_BATCH_NORM,
  TOMA_SHAPE_CUDNN_BATCH_NORM_BACKWARD,
  TOMA_SHAPE_GRU_CELL,
  TOMA_SHAPE_GRU_CELL_BACKWARD,
  TOMA_SHAPE_LSTM_CELL,
  TOMA_SHAPE_LSTM_CELL_BACKWARD,
};

// Installs the operator table, which Rust implements. Called before any operator is looked up. `name` is the name of
// one of libtorch's own schemas, without its overload.
void toma_operators_install(toma_named (*named)(const char* name)) noexcept;

int32_t toma_device_stats(toma_device device, toma_stats* out, toma_error* error) noexcept;
// Free and total bytes. On CUDA they are limited by the memory fraction of the allocator.
int32_t toma_device_memory(toma_device device, uint64_t* out, toma_error* error) noexcept;
// Writes at most `most` blocks of the segments that CUDA's allocator has reserved, by address, and the number of all
// such blocks. Other kinds of devices have none.
int32_t toma_device_parts(
    toma_device device, toma_part* parts, size_t most, size_t* count, toma_error* error) noexcept;
int32_t toma_device_release(toma_device device, toma_error* error) noexcept;
int32_t toma_device_reset_peak(toma_device device, toma_error* error) noexcept;

// The counting CPU allocator. It can be installed at any time, from any thread.
void toma_cpu_install() noexcept;
toma_stats toma_cpu_stats() noexcept;
// `allocated_bytes` of the statistics alone, in a few nanoseconds.
uint64_t toma_cpu_allocated_bytes() noexcept;
void toma_cpu_reset_peak() noexcept;
// UINT64_MAX for no budget.
uint64_t toma_cpu_budget() noexcept;
void toma_cpu_set_budget(uint64_t bytes) noexcept;
// Makes the allocation after `skip` more of this thread fail, once; -1 for none. Returns the previous count.
int64_t toma_cpu_fail_after(int64_t skip) noexcept;

// Callbacks for every block of the counting allocator and of GPUs, on the thread that allocates, frees or is refused
// it. Exempt blocks are not reported. The CPU is device 0, and GPUs follow by their indices.
struct toma_watcher {
  // Returns the owner of the block, which `freed` receives later. A block that was not reported here has the owner 0.
  uint64_t (*allocated)(uint32_t device, uint64_t address, uint64_t bytes);
  void (*freed)(uint32_t device, uint64_t address, uint64_t bytes, uint64_t owner);
  void (*refused)(uint32_t device, uint64_t bytes);
  // Reports the total bytes that an allocator has reserved.
  void (*reserved)(uint32_t device, uint64_t total);
};

// Sets the watcher; null for none. Threads may still be calling the previous one, so every watcher must live forever.
void toma_cpu_watch(const toma_watcher* watcher) noexcept;

// Owner of the block at an address, as the watcher returned; 0 if none is alive. `toma_gpu_owner` searches all GPUs.
uint64_t toma_cpu_owner(uint64_t address) noexcept;
uint64_t toma_gpu_owner(uint64_t address) noexcept;

// Receives a live block: its address, its bytes and its owner.
typedef void (*toma_each_block)(void* context, uint64_t address, uint64_t bytes, uint64_t owner);

// Visits every counted live block of the counting allocator. `body` must not allocate or free tensors, nor throw.
void toma_cpu_each_block(toma_each_block body, void* context) noexcept;
// Visits every live block of a GPU that was reported to the watcher.
void toma_gpu_each_block(uint32_t device, toma_each_block body, void* context) noexcept;
// From now on this thread, and the threads that run its backwards, report blocks of GPUs to the watcher.
void toma_gpu_observe() noexcept;

// Callbacks for operators and for nodes of backward, on the thread that runs them. `node` is a number that an operator
// shares with the node of its gradient, or 0.
struct toma_listener {
  // Returns the number of a name. Each thread caches it.
  uint32_t (*named)(const char* name);
  void (*operator_begins)(uint32_t name, uint64_t node);
  void (*node_begins)(uint32_t name, uint64_t node);
  void (*ends)();
};

// Sets the listener of all threads; null for none. Threads may still be calling the previous one, so every listener
// must live forever. Concurrent calls are not allowed.
void toma_profile_operators(const toma_listener* listener) noexcept;
// Number that the next operator of this thread will share with the node of its gradient.
uint64_t toma_profile_position() noexcept;
// Number of the node of backward that this thread runs, or of the operator that it recomputes.
uint64_t toma_profile_node() noexcept;
// Name of the operator that this thread is in, found by unwinding its stack; UINT32_MAX if it is in none.
uint32_t toma_profile_operator(uint32_t (*named)(const char* name)) noexcept;

// Replaces libtorch's fetcher of C++ backtraces. libtorch does this without a lock, so it must be done while there is
// one thread. Errors that mean out of memory carry no backtrace if `would_retry` returns true on the thread that
// catches them. `would_retry` throws nothing.
void toma_backtraces_install(bool (*would_retry)()) noexcept;
// Changes the depth of this thread; while it is above 0, errors that the thread catches carry no backtrace.
void toma_backtraces_quiet(int32_t change) noexcept;

// Drops gradients that failed backwards have left in this thread's queue. Does nothing inside a backward.
void toma_backward_drop_stranded() noexcept;
// Returns once the thread that runs backward on the device of `loss` has released all earlier graphs.
int32_t toma_backward_wait(const void* loss, toma_error* error) noexcept;

void toma_modes_get(toma_modes* out) noexcept;
// Drops the casts that autocast caches for its region, on every thread. They are cast again when needed.
void toma_casts_clear() noexcept;
int32_t toma_modes_set(const toma_modes* modes, toma_error* error) noexcept;

// Tensors are `const at::Tensor*`, as torch-sys hands them out.
//
// Makes this very tensor the gradient of a variable; a null pointer removes the gradient.
int32_t toma_gradient_set(const void* variable, const void* gradient, toma_error* error) noexcept;
// Address of a variable's gradient, and the number of writes to it; zeros if it has none.
void toma_gradient_print(const void* variable, uint64_t* out) noexcept;
// Address that all handles to one tensor share, and no other live tensor has.
const void* toma_tensor_identity(const void* tensor) noexcept;
// Address that all tensors in one storage share, including views; null if a tensor has no storage.
const void* toma_storage_identity(const void* tensor) noexcept;
// Address of a tensor's memory, or of its gradient's. For a sparse tensor, the addresses of its indices and of its
// values. 0 for none.
void toma_storage_addresses(const void* tensor, bool of_gradient, uint64_t* out) noexcept;

struct toma_tensor {
  toma_device device;
  // A c10::Layout. All fields below are 0 for tensors that are not strided.
  int32_t layout;
  uint64_t storage = 0;
  // Address and size of the storage's memory; 0 if it has none.
  uint64_t data = 0;
  uint64_t bytes = 0;
  uint64_t element_bytes = 0;
  // Offset of the first element, in elements.
  uint64_t offset = 0;
};

// Reads the location of a tensor. TOMA_UNSUPPORTED if it has none; the message continues after the tensor's name.
int32_t toma_tensor_memory(const void* tensor, toma_tensor* out, toma_error* error) noexcept;
// Tests that nothing else holds the tensor or its memory, and that no two elements share an address.
int32_t toma_tensor_is_sole(const void* tensor, bool* out, toma_error* error) noexcept;

// Kinds of recorded events.
enum toma_event_kind : uint32_t {
  // Begin of an operator that does work, of a Node of backward, or of a mark of Rust; `subject` is the offset of its
  // name. TOMA_ENDS ends the latest of them on its thread; its `bytes` are the duration in nanoseconds.
  TOMA_OPERATOR_BEGINS = 0,
  TOMA_NODE_BEGINS = 1,
  TOMA_MARK_BEGINS = 2,
  TOMA_ENDS = 3,
  // An argument of the current operator that holds integers, with its name.
  TOMA_ATTRIBUTE = 4,
  // An argument that is a number, as the bits of a double, with its name.
  TOMA_NUMBER = 5,
  // A source mark of the program; `bytes` is a number that Rust passed.
  TOMA_LINE = 6,
  // Memory is allocated or freed; `subject` is its address.
  TOMA_BORN = 7,
  TOMA_DIED = 8,
  // The current operator uses memory. Numbers: flags (1: a gradient is wanted, 2: written by the host), one identity
  // for the storage and the offset at which the tensor begins, the hash of the memory (0 unless the host has written to
  // it), then the sizes.
  TOMA_READS = 9,
  TOMA_WRITES = 10,
  TOMA_MAKES = 11,
  TOMA_VIEWS = 12,
};

struct toma_event {
  uint32_t kind;
  uint32_t thread = 0;
  uint64_t subject = 0;
  uint64_t bytes = 0;
  // Kind of the device in the upper half, its index in the lower.
  uint64_t device = 0;
  // Range of the event in the numbers of the recording.
  uint64_t from = 0;
  uint64_t count = 0;
};

struct toma_recorder;

struct toma_recording {
  const toma_event* events;
  size_t event_count;
  const int64_t* numbers;
  size_t number_count;
  // Names, each of which ends with a zero.
  const char* names;
  size_t name_bytes;
  // True if memory ran out, so that events are missing.
  bool torn;
};

// Records this thread until `toma_record_end`, which must be called on this thread. Recorders end in any order. CPU
// memory is recorded if the counting allocator is installed.
int32_t toma_record_begin(toma_recorder** out, toma_error* error) noexcept;
// Reads the events so far; valid until the next event.
void toma_record_read(toma_recorder* recorder, toma_recording* out) noexcept;
// Begins a mark of this name; null ends the latest one.
void toma_record_mark(toma_recorder* recorder, const char* name) noexcept;
// Records a source mark.
void toma_record_line(toma_recorder* recorder, uint64_t number) noexcept;
void toma_record_end(toma_recorder* recorder) noexcept;

// Results of a dry run in addition to its recording.
struct toma_dry_outcome {
  // Dry tensors that outlive the run, their bytes, and the operator that made one of them.
  uint64_t kept;
  uint64_t kept_bytes;
  char kept_operator[128];
  // First operation that could not run dry, with the reason; empty if all could.
  char refused[384];
  // Operators whose result depends on data, so that a value or a shape was assumed: a comma after each.
  char unknown[384];
};

// Begins a recorder and a dry run: operators of this thread run no kernel on data, and their results have a shape and a
// device but no memory. `toma_dry_end` restores gradients and the thread; `toma_record_end` must follow it. CPU kernels
// without a Meta kernel are called with zeros, which takes as long as the kernel and measures its scratch. With
// `by_shapes`, they are called only if no shape rule exists.
int32_t toma_dry_begin(bool by_shapes, toma_recorder** out, toma_error* error) noexcept;
// Sets the numbers that are assumed from now on where results depend on data: the first, and the step from each to the
// next. They begin as 1, and stay so.
void toma_dry_answer(toma_recorder* recorder, double first, double step) noexcept;
// True if a generator was seeded since the dry run began.
bool toma_dry_has_seeded(const toma_recorder* recorder) noexcept;
void toma_dry_end(toma_recorder* recorder, toma_dry_outcome* out) noexcept;

// Actions of a plan. DROP runs a stage and drops its input, KEEP runs it and holds its input, SAVE runs it and holds
// all that its backward needs, BACKWARD lets its backward run, SAVE_ALONE is SAVE but drops the input.
enum toma_action_kind : uint32_t { TOMA_DROP = 0, TOMA_KEEP = 1, TOMA_SAVE = 2, TOMA_BACKWARD = 3, TOMA_SAVE_ALONE = 4 };

struct toma_action {
  uint32_t kind;
  uint32_t stage;
  // A later run starts from the output, which is held in addition to the tensors of its kind.
  bool holds_output;
};

// First operators of a region: a fingerprint of each, of which the last has not run yet. `device` runs that one.
struct toma_begun {
  const uint64_t* prints;
  size_t print_count;
  // True if all of them have run and no more follow.
  bool is_whole;
  toma_device device;
};

// Known structure of a region: fingerprints of its operators, the operators that begin stages, and the plan. The arrays
// must live until the answer is read. Without actions, only the inputs of stages are held.
struct toma_chosen {
  const uint64_t* prints = nullptr;
  size_t print_count = 0;
  const uint32_t* cuts = nullptr;
  size_t cut_count = 0;
  const toma_action* actions = nullptr;
  size_t action_count = 0;
};

// Called before the first operator of a region, and where an operator differs from the known structure or is missing.
// The new answer has the same stages and actions up to there, or no fingerprints. An error is thrown by that operator.
typedef int32_t (*toma_choose)(void* context, toma_begun begun, toma_chosen* out, toma_error* error);

// A tensor made in a region. `storage` is the identity of its memory.
struct toma_value {
  const void* storage;
  // Bytes of all of its memory, and of its gradient, if it has one.
  uint64_t storage_bytes, gradient_bytes;
  // Stage that made it; last stage and operator that used it.
  uint32_t stage, last_stage, last_op;
  // Anything refers to the tensor; a boundary between stages holds it; so does the program, or code unknown to the region.
  bool is_alive, is_held, is_elsewhere;
};

// A tensor that an operator of a region saved for backward.
struct toma_slot {
  const void* storage;
  uint64_t bytes;
  // Memory that the slot holds now, which is new after a recomputation; null for none.
  const void* held_storage;
  // Number of the value that made its memory, UINT32_MAX if that is unknown, and TOMA_FOREIGN for memory from outside.
  uint32_t maker;
  // From outside of the region, so that holding it costs nothing; no node needs it any more; its memory is alive, and
  // at TOMA_REGION_ENDS: was alive from the beginning of the last stage until the last operator had run.
  bool is_outside, is_dead, is_alive;
};
constexpr uint32_t TOMA_FOREIGN = UINT32_MAX - 1;

struct toma_recorded {
  uint32_t first_op, first_slot;
  // Kind of the last action that ran the stage.
  uint32_t action;
  // The boundary after this stage is held.
  bool holds_output;
  // The stage cannot be recomputed.
  bool is_kept;
  // A run has filled its slots, and its backward has not begun.
  bool is_saved;
};

// A region as far as it has run. The arrays live until the report ends; those of a known structure are empty.
struct toma_facts {
  uint32_t op_count;
  const toma_value* values;
  size_t value_count;
  const toma_slot* slots;
  size_t slot_count;
  const toma_recorded* stages;
  size_t stage_count;
};

// Time of one run of a stage, and its peak beyond the bytes at its start: without and with saved activations.
struct toma_run {
  uint64_t elapsed_ns, dropping_peak_bytes, saving_peak_bytes;
};

// Bytes allocated beyond those when the region began, by its threads, and of gradients that its variables lack.
struct toma_readings {
  int64_t allocated_bytes;
  uint64_t lacking_bytes;
};

// Reported moments of a region. Two are questions: TOMA_OPERATOR asks if the next operator begins a stage, without a
// plan, and TOMA_STAGE_ENDS if the first run should drop the input of the last stage. TOMA_REGION_ENDS sets `merges`
// for stages that are merged with the one before, TOMA_OPERATOR for the last if it began too early. `run` measures the
// stage that has ended, the recomputation or the backward. At TOMA_BACKWARD_ARRIVES it has the bytes by which the peak
// since the end of the region was higher than the bytes at this moment.
enum toma_moment : uint32_t {
  TOMA_OPERATOR = 0,
  TOMA_STAGE_ENDS = 1,
  TOMA_STAGE_BEGINS = 2,
  TOMA_JOINS = 3,
  TOMA_REGION_ENDS = 4,
  TOMA_REPEATED = 5,
  TOMA_BACKWARD_ARRIVES = 6,
  TOMA_BACKWARD_BEGINS = 7,
  TOMA_BACKWARD_ENDS = 8,
  TOMA_OVER = 9,
};

struct toma_region_report {
  uint32_t moment, stage;
  toma_run run;
  toma_readings now;
  // After a recomputation: true if it saved. After a backward: true if its bytes were counted.
  bool is_so;
  toma_facts facts;
  // One element for each stage; null except at TOMA_OPERATOR and TOMA_REGION_ENDS.
  bool* merges;
};

struct toma_region_figures {
  uint64_t operators;
  // First operator that differs from the known structure; UINT64_MAX for none.
  uint64_t differs;
  // Bytes beyond those allocated when the region began, by its threads.
  uint64_t peak_bytes;
  uint64_t repeat_ns;
  // Bytes of the gradients of its inputs.
  uint64_t input_gradient_bytes;
  // Bytes of the gradients of its variables, and of those that only the first stage uses.
  uint64_t variable_gradient_bytes, first_gradient_bytes;
  // True once nothing will change any more.
  bool is_over;
};

struct toma_region;

// `verify`: recomputed tensors must have the bits of the first run. `undoes`: changes can be undone. `observe` is
// called on the working thread at each moment, at TOMA_OPERATOR only in a region without a plan.
struct toma_region_options {
  bool verify;
  bool undoes;
  bool (*observe)(void* guest, const toma_region_report* report);
  void* guest;
};

// Records this thread until `toma_region_end`. While the graph of the region is alive, stages are recomputed after
// that. TOMA_UNSUPPORTED if another autograd engine is in libtorch's place.
int32_t toma_region_begin(
    toma_choose choose, void* context, toma_region_options options, toma_region** out, toma_error* error) noexcept;
void toma_region_end(toma_region* region) noexcept;
// True if the graph of a tensor ends at the variables and inputs of this region. Needs `undoes`; called before the end.
bool toma_region_is_inside(const toma_region* region, const void* tensor) noexcept;
// Makes the next operator of this thread begin a stage, if the thread records. `layers` is added to the nesting depth
// in containers that cut stages themselves; while it is above 0, no stage begins without a cut.
void toma_region_cut(int32_t layers) noexcept;
bool toma_region_records() noexcept;

// Figures of a region, which are valid until it is dropped. `room` and return values are counts.
toma_region_figures toma_region_figures_of(const toma_region* region) noexcept;
size_t toma_region_prints(const toma_region* region, uint64_t* out, size_t room) noexcept;
// Reasons why stages are kept, one on each line, truncated to `room`; returns the bytes written.
size_t toma_region_kept(const toma_region* region, char* out, size_t room) noexcept;
// Replaces the gradients of the region's variables by copies. `toma_region_undo` restores them and everything else that
// the region has changed. Both need `undoes`.
int32_t toma_region_set_gradients_aside(toma_region* region, toma_error* error) noexcept;
int32_t toma_region_undo(toma_region* region, toma_error* error) noexcept;
// Bytes of the gradients that variables of the region lack.
uint64_t toma_region_lacking(const toma_region* region) noexcept;
void toma_region_drop(toma_region* region) noexcept;
// Replaces libtorch's autograd engine by one with our hooks, before main.
void toma_region_install() noexcept;

// A storage that an operator uses or makes.
struct toma_use {
  // Address of the storage, which identifies it.
  const void* storage;
  uint64_t bytes;
  toma_device device;
  bool writes;
  // Set by `begins`: the storage stays on its device until the operator ends.
  bool is_pinned;
  // The operator reads only rows of it, so moving the whole storage costs more.
  bool is_gathered;
  // Set by `begins` for a gathered storage that stays evicted: its bytes on the host until the operator ends, and the
  // CPU block that stayed in place, or null.
  const void* host_copy;
  const void* block;
};

// Storages of an operator that has ended.
struct toma_ended {
  const char* name;
  toma_use* uses;
  size_t use_count;
  toma_use* made;
  size_t made_count;
  // Peak beyond the bytes allocated when the operator began.
  uint64_t inside_bytes;
  // True if the program may read memory of the arguments, or of the results, without another operator.
  bool lends_uses, lends_made;
  bool has_failed;
};

// Callbacks for operators, on the thread that runs them. None of them throws.
struct toma_offloading {
  // An operator begins. Its storages are fetched and stay until it ends. After an error it neither runs nor ends.
  int32_t (*begins)(const char* name, toma_use* uses, size_t count, toma_error* error);
  void (*ends)(const toma_ended* ended);
  // An operator of a thread that has not entered begins or ends to use these storages.
  void (*held)(toma_use* uses, size_t count, bool begins);
  // An allocation on a device lacks so many bytes; returns true if it is worth a retry.
  bool (*lacks)(toma_device device, uint64_t bytes);
  // A storage dies while it is evicted; returns its bytes.
  uint64_t (*dropped)(void* stand_in);
  // Address of the bytes of a gathered storage; null if they are in no memory that a kernel could read.
  const void* (*memory)(const void* host_copy);
  // Reads `bytes` at each of `count` offsets to the same offsets in `to`, which has `room` for the whole storage.
  int32_t (*read)(const void* host_copy, const uint64_t* offsets, size_t count, uint64_t bytes, uint8_t* to, uint64_t room, toma_error* error);
};

// Installs the callbacks before any function below is called. They must live forever.
void toma_offload_install(const toma_offloading* offloading) noexcept;
// Registers with the dispatcher before a thread enters. TOMA_UNSUPPORTED if another copy of the shim is registered.
int32_t toma_offload_register(toma_error* error) noexcept;
// Storages of at least so many bytes may move, even if no thread has entered, because handles move them.
void toma_offload_moves(uint64_t least_bytes) noexcept;
// Begins to report operators of this thread and of its backwards to the callbacks, until the last `leave`. Storages of
// fewer than `least_bytes` are left out.
void toma_offload_enter(uint64_t least_bytes) noexcept;
// Returns true if no thread is entered any more.
bool toma_offload_leave() noexcept;
// True in a fork of the process that installed the callbacks: the threads that move storages are missing there.
bool toma_offload_is_forked() noexcept;
// True if any thread has entered.
bool toma_offload_is_watched() noexcept;
// While set, this thread's operators are not reported and its allocations are our own. Returns the old value.
bool toma_offload_aside(bool aside) noexcept;
// From now on storages are evicted before CUDA's allocator fails, and it refuses more than `most_bytes` on the device.
void toma_cuda_relieve(uint32_t device, uint64_t most_bytes) noexcept;
// While set, operators of this thread's dry runs are reported as well.
void toma_offload_predict(bool predicts) noexcept;

// Makes a weak reference to a live storage; `forget` releases it.
void* toma_storage_remember(const void* storage) noexcept;
void toma_storage_forget(void* remembered) noexcept;
bool toma_storage_is_gone(const void* remembered) noexcept;
// True if an operator of a thread that has not entered may be using it.
bool toma_storage_is_in_use(const void* remembered) noexcept;
// Makes a strong reference; null if the storage is gone. `release` drops it, which may free the storage.
void* toma_storage_keep(void* remembered) noexcept;
void toma_storage_release(void* kept) noexcept;
// Describes the storage of a tensor (if sparse, of its values, or with `second` of its indices). False for none.
bool toma_storage_use(const void* tensor, bool second, toma_use* out) noexcept;
// True if its memory is owned by its allocator alone, or evicted by us. No other thread may move it meanwhile.
bool toma_storage_may_move(const void* storage) noexcept;
// Evicts a storage and returns its memory. On a CPU the block may stay in place: then dropping the returned memory
// counts it as freed, and it is freed with its storage. Access is refused with `words`, as by `refuse`.
void* toma_storage_take(void* kept, void* stand_in, bool stays, const char* words) noexcept;
// Makes access to an evicted storage an error with these words. Without words, which needs a block that stayed in
// place, access finds the bytes as they were.
void toma_storage_refuse(void* kept, const char* words) noexcept;
// Gives a storage memory again; returns the `stand_in` that `take` has stored.
void* toma_storage_give(void* kept, void* memory) noexcept;
// The `stand_in` of an evicted storage; null if its memory is there.
void* toma_storage_stand_in(void* kept) noexcept;
// Block of an evicted storage that stayed in place; null for none.
const void* toma_storage_block(void* kept) noexcept;
// Memory for an evicted storage, as `take` returns it: the block that stayed in place, or a new one.
int32_t toma_storage_memory(void* kept, uint64_t bytes, void** out, toma_error* error) noexcept;
void toma_memory_drop(void* memory) noexcept;
// Pins pages of the host for copies by a device; false if CUDA refuses.
bool toma_host_pin(toma_device device, void* data, uint64_t bytes) noexcept;
void toma_host_unpin(void* data) noexcept;
// Copies between the host and memory or a storage. A block that stayed in place is copied to only if `overwrites`;
// `differs` is set if its bytes differ from the host's.
int32_t toma_memory_fill(void* memory, const void* host, uint64_t bytes, bool overwrites, bool* differs, toma_error* error) noexcept;
int32_t toma_storage_copy(void* kept, void* host, uint64_t bytes, toma_error* error) noexcept;

// State of the random number generator: handed out as an `at::Tensor*` that the caller owns, and taken as bytes.
int32_t toma_rng_get(toma_device device, void** out, toma_error* error) noexcept;
int32_t toma_rng_set(toma_device device, const uint8_t* state, size_t size, toma_error* error) noexcept;

// A value of the store. It is written to `data` if there is room; `size` is its full size.
struct toma_bytes {
  uint8_t* data;
  size_t room;
  size_t size;
  bool is_there;
};
// Connects to the store at a host, or also serves it there. `close` releases the connection.
int32_t toma_store_open(
    const char* host, uint16_t port, bool serves, uint64_t timeout_ms, void** out, toma_error* error) noexcept;
// Opens another connection to the same store.
int32_t toma_store_clone(void* store, void** out, toma_error* error) noexcept;
void toma_store_close(void* store) noexcept;
int32_t toma_store_set(void* store, const char* key, const uint8_t* data, size_t size, toma_error* error) noexcept;
// Sets a value unless the key has one; returns the value that the key has then.
int32_t toma_store_set_first(
    void* store, const char* key, const uint8_t* data, size_t size, toma_bytes* out, toma_error* error) noexcept;
int32_t toma_store_add(void* store, const char* key, int64_t amount, int64_t* sum, toma_error* error) noexcept;
// Waits for the key; a wait blocks all other operations of the connection.
int32_t toma_store_get(void* store, const char* key, uint64_t timeout_ms, toma_bytes* out, toma_error* error) noexcept;
int32_t toma_store_delete(void* store, const char* key, toma_error* error) noexcept;

}  // extern "C"
