// What toma-torch needs of libtorch and tch does not offer.
//
// Every function returns a toma_code and throws nothing; `error` is filled where the code is not
// TOMA_OK.
//
// # Why
//
// Each file includes c10, and of ATen and autograd the few headers that it needs. c10 knows every kind of device and
// needs no CUDA headers.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum toma_code : int32_t {
  TOMA_OK = 0,
  TOMA_OUT_OF_MEMORY = 1,
  // There is no such device, or libtorch was built or linked without it.
  TOMA_NO_DEVICE = 2,
  // The device is there, and cannot do it.
  TOMA_UNSUPPORTED = 3,
  TOMA_OTHER = 4,
};

// What went wrong, in libtorch's words without its backtrace, cut where it does not fit.
struct toma_error {
  char message[512];
};

struct toma_device {
  // A c10::DeviceType.
  int32_t type;
  int32_t index;
};

// What an allocator has counted on one device.
struct toma_stats {
  uint64_t allocated_bytes;
  uint64_t reserved_bytes;
  uint64_t peak_allocated_bytes;
  uint64_t peak_reserved_bytes;
  uint64_t allocations;
  uint64_t alloc_retries;
  uint64_t ooms;
};

// A part of a segment: one block.
struct toma_part {
  uint64_t bytes;
  // What was asked for, where it is in use.
  uint64_t requested;
  // The first of its segment.
  bool begins;
  bool is_small;
  bool is_used;
  // Not so: another stream than the default one has it, or a pool of its own.
  bool serves_all;
};

// The modes of a thread that change what operators do.
struct toma_modes {
  uint64_t included;
  uint64_t excluded;
  // Those of autograd, one bit each.
  uint64_t autograd;
  // How many autocast regions the thread is in. Whether autocast is on is a dispatch key.
  uint64_t autocast_depth;
  // The types that autocast casts to: of the CPU in the lowest byte, of the accelerator in the next.
  uint64_t autocast_dtypes;
};

// Properties of an operator by its name: the columns of `toma_trace::operators` that are asked for here.
struct toma_named {
  bool gathers, hands_back, detaches, writes_workspace, resizes, calls_others, calls_others_on_cpu, calls_none, copies_operands;
  bool takes_scratch, takes_no_scratch, runs_on_meta, reads_statistics, reduces;
  // A toma_shape_rule.
  uint8_t shape_rule;
};

// `ShapeRule` of `toma_trace::operators`, in its order.
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
};

// Before anything else asks for an operator: the table, which is Rust's. `name` is that of a schema of libtorch's own,
// without its overload.
void toma_operators_install(toma_named (*named)(const char* name)) noexcept;

int32_t toma_device_stats(toma_device device, toma_stats* out, toma_error* error) noexcept;
// Free and total bytes: of CUDA what the allocator may have of them by its memory fraction.
int32_t toma_device_memory(toma_device device, uint64_t* out, toma_error* error) noexcept;
// Writes at most `most` parts of the segments that CUDA's allocator has reserved, by address, and how many there are.
// There are none of other kinds of devices.
int32_t toma_device_parts(
    toma_device device, toma_part* parts, size_t most, size_t* count, toma_error* error) noexcept;
int32_t toma_device_release(toma_device device, toma_error* error) noexcept;
int32_t toma_device_reset_peak(toma_device device, toma_error* error) noexcept;

// The counting CPU allocator. It may be put in place at any time, from any thread.
void toma_cpu_install() noexcept;
toma_stats toma_cpu_stats() noexcept;
// One of them, in a few nanoseconds.
uint64_t toma_cpu_allocated_bytes() noexcept;
void toma_cpu_reset_peak() noexcept;
// UINT64_MAX for no budget.
uint64_t toma_cpu_budget() noexcept;
void toma_cpu_set_budget(uint64_t bytes) noexcept;
// The allocation after `skip` more of this thread fails, once; -1 for none. Returns what was left.
int64_t toma_cpu_fail_after(int64_t skip) noexcept;

// Told of every block of the counting allocator and of GPUs, on the thread that makes, frees or lacks it; of none that is
// exempt. The CPU is device 0, and GPUs follow by their indices.
struct toma_watcher {
  // Answers whose it is, which it hears when the block is freed: 0 where it was not asked.
  uint64_t (*allocated)(uint32_t device, uint64_t address, uint64_t bytes);
  void (*freed)(uint32_t device, uint64_t address, uint64_t bytes, uint64_t owner);
  void (*refused)(uint32_t device, uint64_t bytes);
  // An allocator has so many bytes reserved.
  void (*reserved)(uint32_t device, uint64_t total);
};

// From now on; null for none. A thread may still be telling the one of before, which therefore lives for ever.
void toma_cpu_watch(const toma_watcher* watcher) noexcept;

// What the watcher has answered for the block at an address; 0 where none lives there. `toma_gpu_owner`: on any GPU.
uint64_t toma_cpu_owner(uint64_t address) noexcept;
uint64_t toma_gpu_owner(uint64_t address) noexcept;

// A living block: its address, its bytes, and whose it is.
typedef void (*toma_each_block)(void* context, uint64_t address, uint64_t bytes, uint64_t owner);

// Every living block of the counting allocator that is counted. `body` must neither allocate nor free tensors, and throws nothing.
void toma_cpu_each_block(toma_each_block body, void* context) noexcept;
// Every living block of a device's of which the watcher was told.
void toma_gpu_each_block(uint32_t device, toma_each_block body, void* context) noexcept;
// From now on the watcher is told of GPUs by this thread, and by those of its backwards.
void toma_gpu_observe() noexcept;

// Told of operators and of the nodes of backwards, on the thread that runs them. A node is a number that an operator
// has in common with the node of its gradient, or 0.
struct toma_listener {
  // Asked once for each name and thread.
  uint32_t (*named)(const char* name);
  void (*operator_begins)(uint32_t name, uint64_t node);
  void (*node_begins)(uint32_t name, uint64_t node);
  void (*ends)();
};

// From now on, on all threads; null for none. A thread may still be telling the one of before, which therefore lives
// for ever. One call at a time.
void toma_profile_operators(const toma_listener* listener) noexcept;
// What the next operator of this thread will have in common with the node of its gradient.
uint64_t toma_profile_position() noexcept;
// The node that this thread runs.
uint64_t toma_profile_node() noexcept;
// The name of the operator that this thread is in, by its stack; UINT32_MAX where it is in none.
uint32_t toma_profile_operator(uint32_t (*named)(const char* name)) noexcept;

// Puts our fetcher of C++ backtraces in place of libtorch's. libtorch does it without a lock, so it must
// be done while there is one thread. Errors that mean out of memory carry no backtrace where the thread
// that catches them would retry; `would_retry` says so, and throws nothing.
void toma_backtraces_install(bool (*would_retry)()) noexcept;
// Errors that this thread catches carry no backtrace while the depth is above 0.
void toma_backtraces_quiet(int32_t change) noexcept;

// Drops what backwards that failed have left in this thread's queue. Nothing inside of a backward.
void toma_backward_drop_stranded() noexcept;
// Returns once the thread that runs backwards on the device of a tensor has let go of those before.
int32_t toma_backward_wait(const void* loss, toma_error* error) noexcept;

void toma_modes_get(toma_modes* out) noexcept;
// Drops what autocast has cast and keeps for its region, of every thread: it is cast again when needed.
void toma_casts_clear() noexcept;
int32_t toma_modes_set(const toma_modes* modes, toma_error* error) noexcept;

// Tensors: `const at::Tensor*`, as torch-sys hands them out.
//
// The gradient of a variable becomes this very tensor, or undefined for a null pointer.
int32_t toma_gradient_set(const void* variable, const void* gradient, toma_error* error) noexcept;
// The same for all handles to one tensor, and different for two tensors that live.
const void* toma_tensor_identity(const void* tensor) noexcept;
// The same for all tensors in one storage, views of it included; null for what has none.
const void* toma_storage_identity(const void* tensor) noexcept;
// Where its memory begins, or that of its gradient; of a sparse tensor, where its indices and its values do. 0 for
// nowhere.
void toma_storage_addresses(const void* tensor, bool of_gradient, uint64_t* out) noexcept;

struct toma_tensor {
  toma_device device;
  // A c10::Layout. All else is 0 for tensors that are not strided.
  int32_t layout;
  uint64_t storage = 0;
  // Where the memory of its storage begins, and its bytes; 0 where it has none.
  uint64_t data = 0;
  uint64_t bytes = 0;
  uint64_t element_bytes = 0;
  // Of its first element, in elements.
  uint64_t offset = 0;
};

// Where a tensor is. Unsupported where that is nowhere, in words that follow its name.
int32_t toma_tensor_memory(const void* tensor, toma_tensor* out, toma_error* error) noexcept;
// Whether nothing else holds the tensor or its memory, in which each element has a place of its own.
int32_t toma_tensor_is_sole(const void* tensor, bool* out, toma_error* error) noexcept;

// What a recorder writes down.
enum toma_event_kind : uint32_t {
  // Of the operators that do the work, of the Nodes of backward, and of what Rust marks: subject is where
  // its name begins. What began last on a thread ends first; bytes are then the nanoseconds that it took.
  TOMA_OPERATOR_BEGINS = 0,
  TOMA_NODE_BEGINS = 1,
  TOMA_MARK_BEGINS = 2,
  TOMA_ENDS = 3,
  // An argument of the operator that the thread is in, of integers: with its name.
  TOMA_ATTRIBUTE = 4,
  // Of memory: subject is its address.
  TOMA_BORN = 5,
  TOMA_DIED = 6,
  // Of memory by that operator. Its numbers are whether a gradient is wanted, and the sizes.
  TOMA_READS = 7,
  TOMA_WRITES = 8,
  TOMA_MAKES = 9,
  TOMA_VIEWS = 10,
  // Marks of the program, with a number of Rust's as their bytes.
  TOMA_ENTERS = 11,
  TOMA_LINE = 12,
  TOMA_LEFT_TO = 13,
  TOMA_LEAVES = 14,
  // An argument that is a number, as the bits of a double, with its name.
  TOMA_NUMBER = 15,
};

struct toma_event {
  uint32_t kind;
  uint32_t thread = 0;
  uint64_t subject = 0;
  uint64_t bytes = 0;
  // Its kind in the upper half, its index in the lower.
  uint64_t device = 0;
  // Where its numbers begin, and how many there are.
  uint64_t from = 0;
  uint64_t count = 0;
};

struct toma_recorder;

struct toma_recording {
  const toma_event* events;
  size_t event_count;
  const int64_t* numbers;
  size_t number_count;
  // Each ends with a zero.
  const char* names;
  size_t name_bytes;
  // There was no memory to write all of it down.
  bool torn;
};

// Records what this thread does until the end, which must come on this thread, in any order with other ends.
// Memory of the CPU is recorded where the counting allocator is in place.
int32_t toma_record_begin(toma_recorder** out, toma_error* error) noexcept;
// What is recorded so far; valid until more is.
void toma_record_read(toma_recorder* recorder, toma_recording* out) noexcept;
// Something of this name begins; without a name what began last ends.
void toma_record_mark(toma_recorder* recorder, const char* name) noexcept;
// A mark of this kind.
void toma_record_line(toma_recorder* recorder, uint32_t kind, uint64_t number) noexcept;
void toma_record_end(toma_recorder* recorder) noexcept;

// What a dry run leaves to be said.
struct toma_dry_outcome {
  // Dry tensors that live on, the bytes of them, and the operator that made one of them.
  uint64_t kept;
  uint64_t kept_bytes;
  char kept_operator[128];
  // What could not be run dry and why; empty where all could.
  char refused[384];
  // Operators that answered 1, or with the largest shape, because only data know: a comma after each.
  char unknown[384];
};

// Records, and from here to the end operators of this thread run no kernel on data: what they make has shape and
// device and no memory. The end puts gradients and the thread back as they were; that of the recorder comes
// after. Kernels of the CPU without a Meta kernel are asked with zeros, which takes as long as they do, and tells
// what they take besides their results; by shapes alone they are asked only where no rule is known.
int32_t toma_dry_begin(bool by_shapes, toma_recorder** out, toma_error* error) noexcept;
// From here on data are said to be this number where only they know; 1 in the beginning.
void toma_dry_answer(toma_recorder* recorder, double answer) noexcept;
void toma_dry_end(toma_recorder* recorder, toma_dry_outcome* out) noexcept;

// What a plan does next: runs a stage and drops its input, runs it and holds its input, runs it and holds all that its
// backward needs, lets its backward run, or runs it and holds what its backward needs but its input.
enum toma_action_kind : uint32_t { TOMA_DROP = 0, TOMA_KEEP = 1, TOMA_SAVE = 2, TOMA_BACKWARD = 3, TOMA_SAVE_ALONE = 4 };

struct toma_action {
  uint32_t kind;
  uint32_t stage;
};

// How a region begins: a print for each operator, of which the last has not run. That of the device runs it.
struct toma_begun {
  const uint64_t* prints;
  size_t print_count;
  // All of them have run, and there are no more.
  bool is_whole;
  toma_device device;
};

// What is known of a region that begins so: what its operators are, which of them begin stages, and what to do. All of it lives until the answer is read. Without actions the inputs of stages are held, and nothing
// else.
struct toma_chosen {
  const uint64_t* prints = nullptr;
  size_t print_count = 0;
  const uint32_t* cuts = nullptr;
  size_t cut_count = 0;
  const toma_action* actions = nullptr;
  size_t action_count = 0;
};

// Asked before the first operator of a region, and where one is not what was known or is missing: then the answer has
// the same stages up to there, with the same first actions, or no prints. An error is thrown by that operator.
typedef int32_t (*toma_choose)(void* context, toma_begun begun, toma_chosen* out, toma_error* error);

// One stage of a region, in bytes and nanoseconds. A peak is beyond what was allocated when that run began.
struct toma_stage {
  uint32_t first_op;
  uint32_t repeats;
  uint64_t forward_ns, repeat_ns, backward_ns;
  // What later stages need of it and of those before it; what its backward needs of its own; the gradients of the
  // former.
  uint64_t output_bytes, saved_bytes, gradient_bytes;
  // What later stages need of it and of those before it, and what its backward needs of its own, together.
  uint64_t united_bytes;
  // Of its first run, without and with what it saves; of a later one; of its backward.
  uint64_t peak_bytes, saving_peak_bytes, repeat_peak_bytes, repeat_saving_peak_bytes, backward_peak_bytes;
  // What there is when its backward begins that none of these tell: what the program holds, gradients in the making.
  uint64_t others_bytes;
  // It cannot be run again.
  bool is_kept;
  // Its backward has run.
  bool is_measured;
};

struct toma_region_figures {
  uint64_t operators;
  // The first operator that differs from what was known; UINT64_MAX for none.
  uint64_t differs;
  // Beyond what was allocated when it began, by its threads.
  uint64_t peak_bytes;
  uint64_t repeat_ns;
  // The gradients of its inputs.
  uint64_t input_gradient_bytes;
  // Nothing will change any more.
  bool is_over;
  // And backward has come to the first stage that it needs something of.
  bool is_whole;
};

struct toma_region;

// How far a region has come.
struct toma_region_progress {
  // Beyond what was allocated when it began, by the thread that tells.
  uint64_t allocated_bytes;
  // Of the repetition that has just ended; 0 where none has.
  uint64_t repeated_ns;
  // Its graph is gone, and no more is told.
  bool is_over;
};

// `verify`: repeated tensors must have the bits of the first. `undoes`: what is changed can be put back. `told` hears of
// the begin of each stage and of its backward, of each repetition, and of the end, on the thread that works.
struct toma_region_options {
  bool verify;
  bool undoes;
  void (*told)(void* guest, toma_region_progress progress);
  void* guest;
};

// This thread records from here to the end. A region whose graph lives on repeats stages after that. Another engine in
// libtorch's place is unsupported.
int32_t toma_region_begin(
    toma_choose choose, void* context, toma_region_options options, toma_region** out, toma_error* error) noexcept;
void toma_region_end(toma_region* region) noexcept;
// Whether the graph of a tensor ends at this region's variables and inputs. Before the end, of a region that undoes.
bool toma_region_is_inside(const toma_region* region, const void* tensor) noexcept;
// The next operator of this thread begins a stage, where it records; `layers` is added to how deep it is in what has
// stages of its own.
void toma_region_cut(int32_t layers) noexcept;
bool toma_region_records() noexcept;

// What a region has noted, which lives as long as it is held. `room` and what is returned are counts.
toma_region_figures toma_region_figures_of(const toma_region* region) noexcept;
size_t toma_region_stages(const toma_region* region, toma_stage* out, size_t room) noexcept;
size_t toma_region_prints(const toma_region* region, uint64_t* out, size_t room) noexcept;
// Why something is kept, with a line for each; the bytes of the text, which is cut where it does not fit.
size_t toma_region_kept(const toma_region* region, char* out, size_t room) noexcept;
// Takes their gradients from the variables of the region, and puts back all that it has changed, them included. Of one
// that undoes.
void toma_region_set_gradients_aside(toma_region* region) noexcept;
int32_t toma_region_undo(toma_region* region, toma_error* error) noexcept;
// Bytes of the gradients that its variables lack.
uint64_t toma_region_lacking(const toma_region* region) noexcept;
void toma_region_drop(toma_region* region) noexcept;
// Puts the engine with our hooks in libtorch's place, before main.
void toma_region_install() noexcept;

// A storage that an operator finds or makes.
struct toma_use {
  // Its identity.
  const void* storage;
  uint64_t bytes;
  toma_device device;
  bool writes;
  // Set by what is told of it: it stays until the end.
  bool is_pinned;
  // Rows of it are read, and nothing else; to move it costs more.
  bool is_gathered;
  // Set by what is told of it, of one that is gathered and stays where it is: its bytes, until the end; and the memory
  // that has stayed, or null.
  const void* outside;
  const void* block;
};

// What becomes of the storages of an operator when it has ended.
struct toma_ended {
  const char* name;
  toma_use* uses;
  size_t use_count;
  toma_use* made;
  size_t made_count;
  // The most that it allocated beyond what was there when it began.
  uint64_t inside_bytes;
  // The program may look at memory of what it was given, or of what it made, without another operator.
  bool lends_uses, lends_made;
  bool has_failed;
};

// Told of operators, on the thread that runs them; nothing of it throws.
struct toma_offloading {
  // An operator begins. What it uses comes back, and stays until it ends. After an error it does not run, and has ended.
  int32_t (*begins)(const char* name, toma_use* uses, size_t count, toma_error* error);
  void (*ends)(const toma_ended* ended);
  // An operator of a thread that has not entered uses these, and does so no more.
  void (*held)(toma_use* uses, size_t count, bool begins);
  // An allocation on a device lacks so many bytes; answers whether it is worth another try.
  bool (*lacks)(toma_device device, uint64_t bytes);
  // A storage dies while its memory is away; answers its bytes.
  uint64_t (*dropped)(void* away);
  // Where the bytes of one that is gathered are; null where they are in no memory that a kernel could read.
  const void* (*memory)(const void* outside);
  // Reads `bytes` from each of so many offsets to the same ones of `to`, where there is room for all that are outside.
  int32_t (*read)(const void* outside, const uint64_t* offsets, size_t count, uint64_t bytes, uint8_t* to, uint64_t room, toma_error* error);
};

// Before the first of what follows. It lives for ever.
void toma_offload_install(const toma_offloading* offloading) noexcept;
// Before a thread enters. Unsupported where another copy of the shim is registered with libtorch.
int32_t toma_offload_register(toma_error* error) noexcept;
// Storages of so many bytes may move, also where no thread enters: handles move them.
void toma_offload_moves(uint64_t least_bytes) noexcept;
// This thread's operators are told from the first to the last of these, and those of its backwards. Storages of fewer
// bytes than `least_bytes` are left out.
void toma_offload_enter(uint64_t least_bytes) noexcept;
// Whether no thread is inside any more.
bool toma_offload_leave() noexcept;
// Whether this process is a fork of the one that installed it: threads that move storages are missing here.
bool toma_offload_is_forked() noexcept;
// Whether any thread is inside.
bool toma_offload_is_watched() noexcept;
// Within, this thread is told nothing, and what it allocates is not the program's. Returns what was said before.
bool toma_offload_aside(bool aside) noexcept;
// From now on storages leave before CUDA's allocator says no, and it refuses what exceeds so many bytes on that device.
void toma_cuda_relieve(uint32_t device, uint64_t most_bytes) noexcept;
// Within, operators of dry runs of this thread are told, which otherwise are not.
void toma_offload_foresee(bool foresees) noexcept;

// Remembers a storage that lives, without keeping it alive; `forget` ends that.
void* toma_storage_remember(const void* storage) noexcept;
void toma_storage_forget(void* remembered) noexcept;
bool toma_storage_is_gone(const void* remembered) noexcept;
// Whether an operator of a thread that has not entered may be using it.
bool toma_storage_is_in_use(const void* remembered) noexcept;
// Keeps it alive until it is let go, which may end it; null where it is gone.
void* toma_storage_keep(void* remembered) noexcept;
void toma_storage_let_go(void* kept) noexcept;
// Of a tensor, as one that an operator finds; of sparse ones its values, or with `second` its indices. False for none.
bool toma_storage_use(const void* tensor, bool second, toma_use* out) noexcept;
// Whether its memory is its allocator's alone, or away by our doing. No thread may move it meanwhile.
bool toma_storage_may_move(const void* storage) noexcept;
// Takes the memory of a storage away and returns it. Memory of the CPU may stay: then dropping it counts it as freed,
// and it is freed with its storage. Access is refused with these words, as `refuse` does.
void* toma_storage_take(void* kept, void* away, bool stays, const char* words) noexcept;
// Access to a storage that is away is an error of these words. Without words, which takes memory that has stayed, it
// finds the bytes as they were.
void toma_storage_refuse(void* kept, const char* words) noexcept;
// Gives it memory again; returns what stood for it while it was away.
void* toma_storage_give(void* kept, void* memory) noexcept;
// What stands for it; null where its memory is there.
void* toma_storage_away(void* kept) noexcept;
// Memory of a storage that has stayed while it is away; null for none.
const void* toma_storage_block(void* kept) noexcept;
// Memory for a storage that is away, as `take` returns it: for one whose memory has stayed, that.
int32_t toma_storage_memory(void* kept, uint64_t bytes, void** out, toma_error* error) noexcept;
void toma_memory_drop(void* memory) noexcept;
// Pins pages of the host for copies of a device; false where CUDA says no.
bool toma_host_pin(toma_device device, void* data, uint64_t bytes) noexcept;
void toma_host_unpin(void* data) noexcept;
// Copies between the host and memory or a storage that is there. Memory that has stayed is as it should be, unless
// `overwrites`; `differs` says whether it has other bytes than the host.
int32_t toma_memory_fill(void* memory, const void* host, uint64_t bytes, bool overwrites, bool* differs, toma_error* error) noexcept;
int32_t toma_storage_copy(void* kept, void* host, uint64_t bytes, toma_error* error) noexcept;

// The state of random numbers, handed out as an `at::Tensor*` that is the caller's, and taken as bytes.
int32_t toma_rng_get(toma_device device, void** out, toma_error* error) noexcept;
int32_t toma_rng_set(toma_device device, const uint8_t* state, size_t size, toma_error* error) noexcept;

// A store of bytes by key that processes share. What is read goes to `data`, if there is room for it; `size` says how
// much there is.
struct toma_bytes {
  uint8_t* data;
  size_t room;
  size_t size;
  bool is_there;
};
// Connects to the store at a host, or serves it there as well. `close` frees what is handed out.
int32_t toma_store_open(
    const char* host, uint16_t port, bool serves, uint64_t timeout_ms, void** out, toma_error* error) noexcept;
// Another connection to the same.
int32_t toma_store_clone(void* store, void** out, toma_error* error) noexcept;
void toma_store_close(void* store) noexcept;
int32_t toma_store_set(void* store, const char* key, const uint8_t* data, size_t size, toma_error* error) noexcept;
// Puts bytes there unless some are; hands out those that are there then.
int32_t toma_store_set_first(
    void* store, const char* key, const uint8_t* data, size_t size, toma_bytes* out, toma_error* error) noexcept;
int32_t toma_store_add(void* store, const char* key, int64_t amount, int64_t* sum, toma_error* error) noexcept;
// Waits for the key; a wait holds up all other operations of the connection.
int32_t toma_store_get(void* store, const char* key, uint64_t timeout_ms, toma_bytes* out, toma_error* error) noexcept;
int32_t toma_store_delete(void* store, const char* key, toma_error* error) noexcept;

}  // extern "C"
