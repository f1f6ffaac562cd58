// Tests of the shim alone, for the address and thread sanitizers: `cargo xtask test shim` compiles and runs it.

#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/matmul_ops.h>
#include <ATen/ops/ones_ops.h>
#include <ATen/ops/select_ops.h>
#include <ATen/ops/slice_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/to_mkldnn_ops.h>
#include <ATen/ops/to_ops.h>
#include <c10/core/AutogradState.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "guard.h"
#include "shim.h"

// Declaration from ATen/autocast_mode.h, which includes every operator.
namespace at::autocast {
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device);
}

// The allocator is installed behind a fence, which the sanitizer of threads does not support, and is found through a
// pointer in libtorch, which the sanitizer does not instrument.
extern "C" const char* __tsan_default_suppressions() { return "race:installed_late_it_distinguishes_its_own_blocks_from_others\n"; }

// The real table is in Rust. This one has the operators of this test, with the columns that they need.
static toma_named named_in_test(const char* name) {
  toma_named named{};
  named.gathers = std::strcmp(name, "aten::index_select") == 0;
  named.hands_back = std::strcmp(name, "aten::to") == 0;
  return named;
}

#undef CHECK
#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
      std::exit(1);                                                           \
    }                                                                         \
  } while (false)

namespace {

uint64_t bytes_in_use() { return toma_cpu_allocated_bytes(); }

c10::DataPtr allocate(size_t bytes) { return c10::GetCPUAllocator()->allocate(bytes); }

bool is_refused(size_t bytes) {
  try {
    allocate(bytes);
    return false;
  } catch (const c10::OutOfMemoryError& error) {
    CHECK(std::strstr(error.what(), "tried to allocate") != nullptr);
    CHECK(error.backtrace() == nullptr);
    return true;
  }
}

template <class F>
int32_t code_of(F raise) {
  toma_error error;
  return toma::guarded(&error, raise);
}

at::Tensor ones(std::vector<int64_t> sizes) {
  return at::_ops::ones::call(c10::fromIntArrayRefSlow(sizes), at::kFloat, {}, {}, {});
}

// A tensor in oneDNN's own layout: its block is allocated raw, and freed through the allocator of that moment.
at::Tensor ones_of_onednn() { return at::_ops::to_mkldnn::call(ones({4, 300}), {}); }

float convolve() {
  const std::vector<c10::SymInt> one{1, 1}, none{0, 0};
  const auto image = ones({2, 3, 32, 32}), weight = ones({8, 3, 3, 3});
  return at::_ops::conv2d::call(image, weight, {}, one, none, one, 1).const_data_ptr<float>()[0];
}

// Blocks from before the installation are freed after it, convolutions run meanwhile, and a caller that kept the
// previous allocator frees blocks of ours.
void installed_late_it_distinguishes_its_own_blocks_from_others() {
  auto tensor = ones_of_onednn();
  auto* before = c10::GetCPUAllocator();
  void* foreign = before->raw_allocate(100);
  std::atomic<bool> began{false}, done{false};
  std::thread convolves([&] {
    while (!done) {
      CHECK(convolve() == 27);
      began = true;
    }
  });
  while (!began) {
    std::this_thread::yield();
  }
  toma_cpu_install();
  toma_cpu_install();
  auto* now = c10::GetCPUAllocator();
  CHECK(now != before);
  tensor = ones_of_onednn();
  now->raw_deallocate(foreign);
  done = true;
  convolves.join();
  tensor.reset();
  CHECK(bytes_in_use() == 0);
  // Large, because the sanitizer delays the reuse of freed addresses until there are many.
  constexpr size_t large = 16 << 20;
  before->raw_deallocate(now->raw_allocate(large));
  // Counted until its address is reused; then its entry in the table is replaced.
  CHECK(bytes_in_use() == large);
  while (bytes_in_use() != 0) {
    now->raw_deallocate(now->raw_allocate(large));
  }
  CHECK(allocate(1).get_deleter() == now->raw_deleter());
}

// Two threads allocate, and a third one frees.
void thousands_of_blocks_are_distinguished() {
  const auto before = bytes_in_use();
  std::vector<c10::DataPtr> blocks[2];
  std::vector<std::thread> threads;
  for (auto& half : blocks) {
    threads.emplace_back([&half] {
      half.resize(10000);
      for (size_t i = 0; i < 100000; ++i) {
        // The order of frees and allocations has no pattern, so that the table meets every case.
        auto& block = half[i * 7919 % 10000 * (i % 3) % half.size()];
        block.clear();
        block = allocate(i % 7 + 1);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(bytes_in_use() > before);
  for (auto& half : blocks) {
    for (auto& block : half) {
      const auto* data = block.get();
      const auto now = bytes_in_use();
      block.clear();
      CHECK((data == nullptr) == (bytes_in_use() == now));
    }
  }
  CHECK(bytes_in_use() == before);
}

// Another thread allocates meanwhile, so that it may hold a lock at the time of the fork.
void a_child_of_fork_can_allocate() {
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      allocate(64);
    }
  });
  for (int i = 0; i < 40; ++i) {
    const auto child = fork();
    if (child == 0) {
      alarm(20);
      for (int j = 0; j < 100; ++j) {
        allocate(64);
      }
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  done = true;
  other.join();
}

void blocks_are_whole_and_freed() {
  const auto before = bytes_in_use();
  for (const size_t bytes : {1, 63, 64, 65, 4096, 5000000}) {
    auto block = allocate(bytes);
    CHECK(block.get() == block.get_context());
    CHECK(reinterpret_cast<uintptr_t>(block.get()) % 64 == 0);
    std::memset(block.get(), 0xab, bytes);
    CHECK(bytes_in_use() == before + bytes);
  }
  CHECK(allocate(0).get() == nullptr);
  auto* allocator = c10::GetCPUAllocator();
  void* raw = allocator->raw_allocate(100);
  std::memset(raw, 1, 100);
  allocator->raw_deallocate(raw);
  CHECK(bytes_in_use() == before);
}

void what_is_refused_is_not_counted() {
  const auto before = bytes_in_use();
  toma_cpu_set_budget(before + 100);
  CHECK(!is_refused(100) && is_refused(101) && is_refused(SIZE_MAX / 4));
  toma_cpu_set_budget(UINT64_MAX);
  CHECK(toma_cpu_fail_after(1) == -1);
  CHECK(!is_refused(1) && is_refused(1) && !is_refused(1));
  CHECK(toma_cpu_fail_after(-1) == -1);
  toma_cpu_reset_peak();
  for (const size_t bytes : {size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} - 7, size_t{PTRDIFF_MAX} - 64, SIZE_MAX, size_t{1} << 60}) {
    CHECK(code_of([&] { allocate(bytes); }) != TOMA_OK);
  }
  CHECK(bytes_in_use() == before && toma_cpu_stats().peak_allocated_bytes == before);
}

// Also if the block outlives the guard.
void what_is_exempt_is_never_counted_or_refused() {
  const auto before = bytes_in_use();
  toma_cpu_reset_peak();
  toma_cpu_set_budget(before + 100);
  c10::DataPtr outlives;
  {
    const toma::Exempt exempt;
    outlives = allocate(1000);
    allocate(1000);
  }
  CHECK(bytes_in_use() == before && toma_cpu_stats().peak_allocated_bytes == before);
  CHECK(!is_refused(100) && is_refused(101));
  const auto usual = allocate(100);
  CHECK(bytes_in_use() == before + 100 && toma_cpu_stats().peak_allocated_bytes == before + 100);
  outlives.clear();
  CHECK(bytes_in_use() == before + 100);
  toma_cpu_set_budget(UINT64_MAX);
}

void every_exception_becomes_a_code() {
  toma_error error;
  const std::string endless(2000, 'x');
  CHECK(toma::guarded(&error, [&] { throw c10::OutOfMemoryError(endless, nullptr); }) == TOMA_OUT_OF_MEMORY);
  CHECK(std::strlen(error.message) == sizeof error.message - 1);
  CHECK(toma::guarded(&error, [] { TORCH_CHECK(false, "wrong"); }) == TOMA_OTHER);
  CHECK(std::strcmp(error.message, "wrong") == 0);
  CHECK(code_of([] {}) == TOMA_OK);
  CHECK(code_of([] { throw std::bad_alloc(); }) == TOMA_OUT_OF_MEMORY);
  CHECK(code_of([] { throw c10::AcceleratorError({}, 2, "CUDA error"); }) == TOMA_OUT_OF_MEMORY);
  CHECK(code_of([] { throw c10::AcceleratorError({}, 700, "CUDA error"); }) == TOMA_OTHER);
  CHECK(code_of([] { c10::alloc_cpu(size_t{1} << 60); }) == TOMA_OUT_OF_MEMORY);
  CHECK(code_of([] { TORCH_CHECK_NOT_IMPLEMENTED(false, "not here"); }) == TOMA_UNSUPPORTED);
  CHECK(code_of([] { throw 7; }) == TOMA_OTHER);
}

void devices_that_are_not_there() {
  toma_error error;
  toma_stats stats;
  uint64_t memory[2];
  void* state;
  // libtorch does not know the last four kinds at all.
  for (const int32_t type : {0, 1, 13, 10, -1, 22, 99, 1 << 20}) {
    for (const int32_t index : {-1, 200}) {
      const toma_device device{type, index};
      CHECK(toma_device_stats(device, &stats, &error) == TOMA_NO_DEVICE);
      CHECK(toma_device_memory(device, memory, &error) == TOMA_NO_DEVICE);
      size_t parts = 1;
      CHECK(toma_device_parts(device, nullptr, 0, &parts, &error) == TOMA_NO_DEVICE && parts == 0);
      CHECK(toma_device_release(device, &error) == TOMA_NO_DEVICE);
      CHECK(toma_device_reset_peak(device, &error) == TOMA_NO_DEVICE);
      CHECK(toma_rng_get(device, &state, &error) == TOMA_NO_DEVICE);
    }
  }
}

void random_states() {
  toma_error error;
  void* state = nullptr;
  CHECK(toma_rng_get({0, 0}, &state, &error) == TOMA_OK);
  const std::unique_ptr<at::Tensor> owned(static_cast<at::Tensor*>(state));
  const auto* bytes = owned->const_data_ptr<uint8_t>();
  const auto size = static_cast<size_t>(owned->numel());
  CHECK(toma_rng_set({0, 0}, bytes, size, &error) == TOMA_OK);
  CHECK(toma_rng_set({0, 0}, bytes, size - 1, &error) == TOMA_OTHER);
}

toma_modes modes() {
  toma_modes now;
  toma_modes_get(&now);
  return now;
}

bool are_equal(const toma_modes& one, const toma_modes& other) { return std::memcmp(&one, &other, sizeof one) == 0; }

void set_modes(const toma_modes& modes) {
  toma_error error;
  CHECK(toma_modes_set(&modes, &error) == TOMA_OK);
}

void modes_come_back_one_by_one() {
  const auto before = modes();
  const auto change = [&](uint64_t toma_modes::*field, uint64_t value) {
    auto changed = before;
    changed.*field = value;
    set_modes(changed);
    CHECK(are_equal(modes(), changed));
  };
  for (uint64_t mode = 0; mode < 5; ++mode) {
    change(&toma_modes::autograd, before.autograd ^ uint64_t{1} << mode);
  }
  for (const uint64_t depth : {3, 1, 2}) {
    change(&toma_modes::autocast_depth, depth);
  }
  for (const auto dtype : {at::kHalf, at::kFloat, at::kBFloat16}) {
    change(&toma_modes::autocast_dtypes, static_cast<uint64_t>(at::kHalf) << 8 | static_cast<uint64_t>(dtype));
    CHECK(at::autocast::get_autocast_dtype(at::kCPU) == dtype);
    CHECK(at::autocast::get_autocast_dtype(at::kCUDA) == at::kHalf);
  }
  {
    const c10::impl::ExcludeDispatchKeyGuard excluded(c10::DispatchKey::AutogradCPU);
    const auto now = modes();
    CHECK(now.excluded != before.excluded);
    std::thread([&] {
      set_modes(now);
      CHECK(c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradCPU));
    }).join();
  }
  set_modes(before);
  CHECK(are_equal(modes(), before));
  CHECK(c10::AutogradState::get_tls_state().get_grad_mode());
}

void gradients_are_handles() {
  toma_error error;
  const auto before = bytes_in_use();
  {
    const auto variable = ones({4}), gradient = ones({4});
    CHECK(toma_gradient_set(&variable, &gradient, &error) == TOMA_OK);
    CHECK(variable.grad().is_same(gradient));
    CHECK(bytes_in_use() == before + 32);
    CHECK(toma_gradient_set(&variable, nullptr, &error) == TOMA_OK);
    CHECK(!variable.grad().defined());
  }
  CHECK(bytes_in_use() == before);
}

// Two threads run dry, of which one is the first ever, while a third one runs operators for real: the tables that it
// reads are written meanwhile.
void the_first_dry_run_may_begin_while_others_work() {
  const auto before = bytes_in_use();
  std::atomic<int> running{2};
  const auto runs_dry = [&] {
    for (int i = 0; i < 20; ++i) {
      toma_error error;
      toma_recorder* recorder = nullptr;
      CHECK(toma_dry_begin(i % 2 == 0, &recorder, &error) == TOMA_OK);
      convolve();
      toma_recording recording;
      toma_record_read(recorder, &recording);
      CHECK(recording.event_count > 0 && !recording.torn);
      toma_dry_outcome outcome;
      toma_dry_end(recorder, &outcome);
      CHECK(outcome.kept == 0 && outcome.refused[0] == '\0');
      toma_record_end(recorder);
      CHECK(convolve() == 27);
    }
    --running;
  };
  std::thread first(runs_dry), second(runs_dry);
  while (running > 0) {
    CHECK(convolve() == 27);
  }
  first.join();
  second.join();
  CHECK(bytes_in_use() == before);
}

// Tensors of a backward do so, on the thread of a device.
void dry_tensors_may_die_on_other_threads() {
  toma_error error;
  toma_recorder* recorder = nullptr;
  CHECK(toma_dry_begin(false, &recorder, &error) == TOMA_OK);
  for (int i = 0; i < 200; ++i) {
    auto made = std::make_unique<at::Tensor>(ones({4, 300}));
    std::thread other([&made] { made.reset(); });
    ones({4, 300});
    other.join();
  }
  toma_dry_outcome outcome;
  toma_dry_end(recorder, &outcome);
  CHECK(outcome.kept == 0);
  toma_record_end(recorder);
}

void recorders_leave_in_any_order() {
  toma_error error;
  toma_recorder *first = nullptr, *second = nullptr;
  CHECK(toma_record_begin(&first, &error) == TOMA_OK && toma_record_begin(&second, &error) == TOMA_OK);
  ones({4});
  toma_record_end(first);
  toma_record_mark(second, "after");
  ones({4});
  toma_record_mark(second, nullptr);
  toma_recording seen;
  toma_record_read(second, &seen);
  // Both operators begin and end, with their arguments, and so does the mark.
  CHECK(std::count_if(seen.events, seen.events + seen.event_count, [](auto& event) { return event.kind == TOMA_ENDS; }) == 3);
  toma_record_end(second);
}

thread_local bool would_retry = false;

const c10::SourceLocation here{"test", __FILE__, __LINE__};

// Returns true if the text of the error that `raise` throws has a backtrace, as a handler reads it.
template <class F>
bool has_trace(F raise) {
  try {
    raise();
  } catch (const std::exception& error) {
    return std::strstr(error.what(), "frame #") != nullptr;
  }
  CHECK(false);
  return false;
}

void raise_out_of_memory() { TORCH_CHECK_WITH(OutOfMemoryError, false, "no memory"); }
void raise_of_driver(int32_t code) { throw c10::AcceleratorError(here, code, "CUDA error"); }
void raise_other() { TORCH_CHECK(false, "not the DefaultCPUAllocator"); }

void backtraces_are_left_out_only_of_what_means_out_of_memory() {
  would_retry = true;
  CHECK(!has_trace(raise_out_of_memory));
  CHECK(!has_trace([] { raise_of_driver(2); }));
  CHECK(!has_trace([] { c10::alloc_cpu(size_t{1} << 60); }));
  CHECK(has_trace([] { raise_of_driver(700); }));
  CHECK(has_trace(raise_other));
  std::thread([] { CHECK(has_trace(raise_out_of_memory)); }).join();
  would_retry = false;
  CHECK(has_trace(raise_out_of_memory));
  CHECK(has_trace([] { raise_of_driver(2); }));
  CHECK(has_trace([] { c10::alloc_cpu(size_t{1} << 60); }));
  toma_backtraces_quiet(1);
  CHECK(!has_trace(raise_other));
  toma_backtraces_quiet(-1);
}

// The text may be read by another thread than the one that raised the error, as after a backward, and while the error
// is not handled, or another one is.
void what_counts_is_the_thread_that_catches_and_the_error_that_it_handles() {
  std::exception_ptr raised;
  std::thread([&] {
    try {
      raise_out_of_memory();
    } catch (...) {
      raised = std::current_exception();
    }
  }).join();
  would_retry = true;
  CHECK(!has_trace([&] { std::rethrow_exception(raised); }));
  const c10::OutOfMemoryError held(here, "held"), another(here, "another");
  CHECK(std::strstr(held.what(), "frame #") != nullptr);
  try {
    throw 7;
  } catch (int) {
    CHECK(std::strstr(another.what(), "frame #") != nullptr);
  }
  would_retry = false;
}

toma_tensor memory_of(const at::Tensor& tensor) {
  toma_tensor memory;
  toma_error error;
  CHECK(toma_tensor_memory(&tensor, &memory, &error) == TOMA_OK);
  return memory;
}

bool is_nowhere(const at::Tensor& tensor, const char* words) {
  toma_tensor memory;
  toma_error error;
  return toma_tensor_memory(&tensor, &memory, &error) == TOMA_UNSUPPORTED && std::strcmp(error.message, words) == 0;
}

void addresses_of_tensors_are_read() {
  const auto tensor = ones({4, 3});
  const auto row = at::_ops::select_int::call(tensor, 0, 2);
  const auto memory = memory_of(tensor), of_row = memory_of(row);
  CHECK(memory.data == reinterpret_cast<uintptr_t>(tensor.const_data_ptr()));
  CHECK(memory.storage == reinterpret_cast<uintptr_t>(toma_storage_identity(&tensor)));
  CHECK(memory.bytes == 48 && memory.element_bytes == 4 && memory.offset == 0);
  CHECK(memory.device.type == 0 && memory.device.index == 0 && memory.layout == 0);
  CHECK(of_row.storage == memory.storage && of_row.data == memory.data && of_row.bytes == 48 && of_row.offset == 6);
  const auto of_onednn = memory_of(ones_of_onednn());
  CHECK(of_onednn.storage == 0 && of_onednn.layout == static_cast<int32_t>(c10::kMkldnn));
  CHECK(is_nowhere(at::Tensor(), "must be defined"));
  const std::vector<c10::SymInt> sizes{2};
  const auto meta = at::_ops::ones::call(sizes, at::kFloat, {}, c10::Device(c10::kMeta), {});
  CHECK(is_nowhere(meta, "is on the device meta, which has no memory"));
}

// While other threads allocate; and exact to the byte when none does.
void living_blocks_are_walked() {
  std::atomic<bool> done{false};
  std::thread allocates([&] {
    while (!done) {
      allocate(100);
    }
  });
  const auto living = [] {
    uint64_t sum = 0;
    const auto add = [](void* context, uint64_t, uint64_t bytes, uint64_t) { *static_cast<uint64_t*>(context) += bytes; };
    toma_cpu_each_block(add, &sum);
    return sum;
  };
  for (int i = 0; i < 100; ++i) {
    living();
  }
  done = true;
  allocates.join();
  const auto before = living();
  const auto block = allocate(1000);
  CHECK(living() == before + 1000 && living() == bytes_in_use());
}

// Reports that a watcher of GPUs receives.
struct Watched {
  std::vector<std::string> lines;
};

Watched& watched() {
  static auto* watched = new Watched;
  return *watched;
}

void note(const std::string& line) { watched().lines.push_back(line); }

void watch_gpus() {
  static const toma_watcher watcher{
      [](uint32_t device, uint64_t address, uint64_t bytes) -> uint64_t {
        if (device > 0) {
          note("born " + std::to_string(device) + " " + std::to_string(address) + " " + std::to_string(bytes));
        }
        return address + 1;
      },
      [](uint32_t device, uint64_t address, uint64_t bytes, uint64_t owner) {
        if (device > 0) {
          note("died " + std::to_string(address) + " " + std::to_string(bytes) + " of " + std::to_string(owner));
        }
      },
      [](uint32_t device, uint64_t bytes) {
        if (device > 0) {
          note("lacks " + std::to_string(bytes));
        }
      },
      [](uint32_t, uint64_t total) { note("reserved " + std::to_string(total)); },
  };
  toma_cpu_watch(&watcher);
}

// Reports a block as the device's allocator does; the device need not exist.
void report(uint64_t address, int64_t bytes, size_t reserved) {
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(address), bytes, 0, reserved, c10::Device(c10::kCUDA, 1));
}

void blocks_of_gpus_are_reported_by_observed_threads() {
  report(512, 1024, 4096);
  CHECK(watched().lines.empty());
  watch_gpus();
  report(512, 1024, 4096);
  CHECK(watched().lines.empty());
  toma_gpu_observe();
  toma_gpu_observe();
  report(512, 1024, 4096);
  CHECK((watched().lines == std::vector<std::string>{"born 2 512 1024", "reserved 4096"}));
  CHECK(toma_gpu_owner(512) == 513 && toma_gpu_owner(1024) == 0);
  watched().lines.clear();
  // The block was freed on an unobserved thread, so its address is reused.
  report(512, 2048, 8192);
  report(1024, -100, 8192);
  c10::reportOutOfMemoryToProfiler(77, 0, 0, c10::Device(c10::kCUDA, 1));
  report(512, -2048, 8192);
  const std::vector<std::string> expected{
      "died 512 1024 of 513", "born 2 512 2048", "reserved 8192", "died 1024 100 of 0", "reserved 8192",
      "lacks 77", "died 512 2048 of 513", "reserved 8192"};
  CHECK(watched().lines == expected);
  watched().lines.clear();
  // A recorder of the thread receives the report, too, and removes nothing.
  toma_recorder* recorder = nullptr;
  toma_error error;
  CHECK(toma_record_begin(&recorder, &error) == TOMA_OK);
  report(512, 64, 0);
  toma_record_end(recorder);
  report(512, -64, 0);
  CHECK((watched().lines == std::vector<std::string>{"born 2 512 64", "reserved 0", "died 512 64 of 513", "reserved 0"}));
  // libtorch takes our object for a profiler of its own, which is off.
  const auto* own = torch::profiler::impl::ProfilerStateBase::get();
  CHECK(own != nullptr && own->config().disabled());
  toma_cpu_watch(nullptr);
}

// Trains four layers, with their backward; returns the first element of the weight's gradient.
float train(const at::Tensor& weight, bool cuts) {
  auto value = ones({4, 4});
  for (int layer = 0; layer < 4; ++layer) {
    value = at::_ops::tanh::call(at::_ops::matmul::call(value, weight));
    if (cuts) {
      toma_region_cut(0);
    }
  }
  const auto loss = at::_ops::sum::call(value, {});
  toma_region_cut(0);
  torch::autograd::backward({loss}, {});
  const auto gradient = weight.grad().const_data_ptr<float>()[0];
  weight.mutable_grad() = at::Tensor();
  return gradient;
}

torch::autograd::Engine& another_engine() { return torch::autograd::Engine::get_base_engine(); }

int32_t begin_region(toma_region** region, toma_error* error, std::atomic<int>* stages = nullptr) {
  const auto choose = [](void*, toma_begun, toma_chosen*, toma_error*) { return int32_t{TOMA_OK}; };
  const auto observe = [](void* stages, const toma_region_report* report) {
    if (stages != nullptr && report->moment == TOMA_STAGE_BEGINS) {
      ++*static_cast<std::atomic<int>*>(stages);
    }
    return false;
  };
  const toma_region_options options{true, true, observe, stages};
  return toma_region_begin(choose, nullptr, options, region, error);
}

void no_region_begins_where_another_engine_is_in_place() {
  toma_region* region = nullptr;
  toma_error error;
  torch::autograd::set_default_engine_stub(&another_engine);
  CHECK(begin_region(&region, &error) == TOMA_UNSUPPORTED && region == nullptr);
  CHECK(std::strstr(error.message, "another autograd engine") != nullptr);
  toma_region_install();
}

// Two threads at once, with one backward inside the region and one after its end.
void regions_repeat_what_they_dropped() {
  toma_cpu_install();
  const auto before = bytes_in_use();
  const auto region = [](const at::Tensor& weight) {
    toma_region* region = nullptr;
    toma_error error;
    std::atomic<int> stages{0};
    CHECK(begin_region(&region, &error, &stages) == TOMA_OK);
    CHECK(toma_region_records());
    const auto inside = train(weight, true);
    const auto value = at::_ops::tanh::call(at::_ops::matmul::call(ones({4, 4}), weight));
    toma_region_end(region);
    CHECK(!toma_region_records());
    torch::autograd::backward({at::_ops::sum::call(value, {})}, {});
    weight.mutable_grad() = at::Tensor();
    CHECK(stages > 0 && toma_region_figures_of(region).operators > 8);
    toma_region_drop(region);
    return inside;
  };
  const auto work = [&] {
    const auto weight = ones({4, 4}).set_requires_grad(true);
    const auto plain = train(weight, false);
    for (int time = 0; time < 20; ++time) {
      CHECK(region(weight) == plain);
    }
  };
  std::thread other(work);
  work();
  other.join();
  CHECK(bytes_in_use() == before);
}

// Another thread reads figures while a backward recomputes stages.
void figures_are_read_while_stages_are_repeated() {
  toma_region* region = nullptr;
  toma_error error;
  CHECK(begin_region(&region, &error) == TOMA_OK);
  const auto weight = ones({4, 4}).set_requires_grad(true);
  auto value = ones({4, 4});
  for (int layer = 0; layer < 32; ++layer) {
    value = at::_ops::tanh::call(at::_ops::matmul::call(value, weight));
    toma_region_cut(0);
  }
  toma_region_end(region);
  std::atomic<bool> done{false};
  uint64_t last = 0;
  std::thread reads([&] {
    while (!done) {
      const auto now = toma_region_figures_of(region).repeat_ns;
      CHECK(now >= last);
      last = now;
    }
  });
  torch::autograd::backward({at::_ops::sum::call(value, {})}, {});
  done = true;
  reads.join();
  value.reset();
  CHECK(toma_region_figures_of(region).repeat_ns > 0);
  toma_region_drop(region);
}

// Made before everything that the shim keeps for a thread and after libtorch's objects, so destroyed in between.
struct Late {
  ~Late() {
    graph.reset();
    if (!works) {
      return;
    }
    toma_region* region = nullptr;
    toma_error error;
    CHECK(begin_region(&region, &error) == TOMA_OK);
    const auto weight = ones({4, 4}).set_requires_grad(true);
    train(weight, true);
    toma_region_end(region);
    toma_region_drop(region);
  }
  at::Tensor graph;
  bool works = false;
};

void a_thread_may_record_while_it_ends() {
  std::thread([] {
    train(ones({4, 4}).set_requires_grad(true), false);
    static thread_local Late late;
    late.works = true;
    toma_region* region = nullptr;
    toma_error error;
    CHECK(begin_region(&region, &error) == TOMA_OK);
    late.graph = at::_ops::tanh::call(at::_ops::matmul::call(ones({4, 4}), ones({4, 4}).set_requires_grad(true)));
    toma_region_end(region);
    toma_region_drop(region);
  }).join();
}

// Stand-in for evicted memory in these tests: its bytes, on the host.
using HostCopy = std::vector<char>;

void leaves(const at::Tensor& tensor) {
  toma_use use;
  toma_error error;
  CHECK(toma_storage_use(&tensor, false, &use) && toma_storage_may_move(use.storage));
  void* remembered = toma_storage_remember(use.storage);
  void* kept = toma_storage_keep(remembered);
  auto* host_copy = new HostCopy(use.bytes);
  CHECK(toma_storage_copy(kept, host_copy->data(), use.bytes, &error) == TOMA_OK);
  toma_memory_drop(toma_storage_take(kept, host_copy, true, "it is evicted"));
  toma_storage_release(kept);
  toma_storage_forget(remembered);
}

void comes(const toma_use& use) {
  void* remembered = toma_storage_remember(use.storage);
  void* kept = toma_storage_keep(remembered);
  toma_error error;
  if (auto* host_copy = static_cast<HostCopy*>(toma_storage_stand_in(kept))) {
    void* memory = nullptr;
    CHECK(toma_storage_memory(kept, use.bytes, &memory, &error) == TOMA_OK);
    bool differs = true;
    CHECK(toma_memory_fill(memory, host_copy->data(), use.bytes, false, &differs, &error) == TOMA_OK && !differs);
    CHECK(toma_storage_give(kept, memory) == host_copy);
    delete host_copy;
  }
  toma_storage_release(kept);
  toma_storage_forget(remembered);
}

HostCopy* host_copy_of(const void* storage) {
  void* remembered = toma_storage_remember(storage);
  void* kept = toma_storage_keep(remembered);
  auto* host_copy = static_cast<HostCopy*>(toma_storage_stand_in(kept));
  toma_storage_release(kept);
  toma_storage_forget(remembered);
  return host_copy;
}

// True if kernels may read the evicted bytes.
std::atomic<bool> is_in_memory{true};
std::atomic<uint64_t> gathers{0};

const toma_offloading bringing{
    [](const char*, toma_use* uses, size_t count, toma_error*) {
      std::for_each(uses, uses + count, [](toma_use& use) {
        use.host_copy = use.is_gathered ? host_copy_of(use.storage) : nullptr;
        if (use.host_copy == nullptr) {
          comes(use);
        }
      });
      return int32_t{TOMA_OK};
    },
    [](const toma_ended* ended) {
      const auto is_gathered = [](const toma_use& use) { return use.host_copy != nullptr; };
      gathers += std::count_if(ended->uses, ended->uses + ended->use_count, is_gathered);
    },
    [](toma_use*, size_t, bool) {},
    [](toma_device, uint64_t) { return false; },
    [](void* stand_in) {
      const std::unique_ptr<HostCopy> dropped(static_cast<HostCopy*>(stand_in));
      return uint64_t{dropped->size()};
    },
    [](const void* host_copy) -> const void* { return is_in_memory ? static_cast<const HostCopy*>(host_copy)->data() : nullptr; },
    [](const void* evicted, const uint64_t* offsets, size_t count, uint64_t bytes, uint8_t* to, uint64_t room, toma_error*) {
      const auto& host_copy = *static_cast<const HostCopy*>(evicted);
      CHECK(room == host_copy.size());
      std::for_each(offsets, offsets + count, [&](uint64_t offset) { std::copy_n(host_copy.begin() + offset, bytes, to + offset); });
      return int32_t{TOMA_OK};
    },
};

// Row `at` of an evicted table whose rows hold their own numbers.
float first_of_row(const at::Tensor& table, int64_t at) {
  const auto rows = at::_ops::to_dtype::call(ones({2}), c10::kLong, false, false, std::nullopt);
  rows.mutable_data_ptr<int64_t>()[0] = at;
  if (host_copy_of(table.storage().unsafeGetStorageImpl()) == nullptr) {
    leaves(table);
  }
  return at::_ops::index_select::call(table, 0, rows).const_data_ptr<float>()[0];
}

void rows_are_taken_on_the_host() {
  toma_cpu_install();
  toma_offload_install(&bringing);
  toma_error error;
  CHECK(toma_offload_register(&error) == TOMA_OK);
  const auto before = bytes_in_use();
  {
    const auto table = ones({1000, 8});
    for (int64_t at = 0; at < table.numel(); ++at) {
      table.mutable_data_ptr<float>()[at] = static_cast<float>(at / 8);
    }
    const auto part = at::_ops::slice_Tensor::call(table, 0, 500, 1000, 1);
    toma_offload_enter(1);
    for (const bool in_memory : {true, false}) {
      is_in_memory = in_memory;
      const auto gathered = gathers.load();
      CHECK(first_of_row(table, 999) == 999 && first_of_row(part, 7) == 507);
      bool is_refused = false;
      try {
        first_of_row(part, 500);
      } catch (const c10::Error&) {
        is_refused = true;
      }
      CHECK(is_refused && gathers == gathered + 3);
      CHECK(host_copy_of(table.storage().unsafeGetStorageImpl()) != nullptr);
    }
    toma_offload_leave();
  }
  CHECK(bytes_in_use() == before);
}

// A thread that has read an address may use it until the storage ends, and no access shows that it does.
void memory_that_is_read_by_its_address_stays_where_it_is() {
  toma_cpu_install();
  toma_offload_install(&bringing);
  const auto before = bytes_in_use();
  {
    const auto tensor = ones({1000});
    const auto held = bytes_in_use();
    const auto* address = tensor.const_data_ptr<float>();
    toma_use use;
    CHECK(toma_storage_use(&tensor, false, &use));
    std::atomic<bool> is_over{false};
    std::thread reads([&] {
      while (!is_over) {
        CHECK(std::all_of(address, address + 1000, [](float element) { return element == 1; }));
      }
    });
    for (int time = 0; time < 100; ++time) {
      leaves(tensor);
      CHECK(bytes_in_use() == held - use.bytes);
      comes(use);
      CHECK(bytes_in_use() == held && tensor.const_data_ptr<float>() == address);
    }
    leaves(tensor);
    is_over = true;
    reads.join();
  }
  CHECK(bytes_in_use() == before);
}

// On two threads that have entered, and a third that has not; some storages die while they are evicted.
void memory_goes_and_comes_back_for_operators() {
  toma_cpu_install();
  toma_offload_install(&bringing);
  toma_error error;
  CHECK(toma_offload_register(&error) == TOMA_OK);
  const auto before = bytes_in_use();
  const auto work = [] {
    const auto weight = ones({4, 4}).set_requires_grad(true);
    toma_offload_enter(1);
    for (int time = 0; time < 20; ++time) {
      leaves(weight);
      const auto product = at::_ops::matmul::call(weight, weight);
      leaves(weight);
      torch::autograd::backward({at::_ops::sum::call(product, {})}, {});
      CHECK(weight.grad().const_data_ptr<float>()[0] == 8);
      weight.mutable_grad() = at::Tensor();
      const auto dies = ones({4, 4});
      leaves(dies);
      bool is_refused = false;
      try {
        dies.const_data_ptr<float>();
      } catch (const c10::Error& error) {
        is_refused = std::strstr(error.what_without_backtrace(), "it is evicted") != nullptr;
      }
      CHECK(is_refused);
    }
    toma_offload_leave();
  };
  std::thread other(work);
  std::thread outside([] { CHECK(at::_ops::sum::call(ones({64}), {}).const_data_ptr<float>()[0] == 64); });
  work();
  other.join();
  outside.join();
  CHECK(bytes_in_use() == before);
}

}  // namespace

int main() {
  toma_operators_install(named_in_test);
  toma_region_install();
  // Done while there is one thread; libtorch starts more for its operators.
  CHECK(has_trace(raise_out_of_memory));
  toma_backtraces_install([] { return would_retry; });
  installed_late_it_distinguishes_its_own_blocks_from_others();
  thousands_of_blocks_are_distinguished();
  a_child_of_fork_can_allocate();
  blocks_are_whole_and_freed();
  living_blocks_are_walked();
  blocks_of_gpus_are_reported_by_observed_threads();
  addresses_of_tensors_are_read();
  what_is_refused_is_not_counted();
  what_is_exempt_is_never_counted_or_refused();
  every_exception_becomes_a_code();
  devices_that_are_not_there();
  random_states();
  modes_come_back_one_by_one();
  gradients_are_handles();
  the_first_dry_run_may_begin_while_others_work();
  dry_tensors_may_die_on_other_threads();
  recorders_leave_in_any_order();
  no_region_begins_where_another_engine_is_in_place();
  regions_repeat_what_they_dropped();
  figures_are_read_while_stages_are_repeated();
  a_thread_may_record_while_it_ends();
  memory_goes_and_comes_back_for_operators();
  rows_are_taken_on_the_host();
  memory_that_is_read_by_its_address_stays_where_it_is();
  backtraces_are_left_out_only_of_what_means_out_of_memory();
  what_counts_is_the_thread_that_catches_and_the_error_that_it_handles();
  toma_backtraces_quiet(1);
  every_exception_becomes_a_code();
  toma_backtraces_quiet(-1);
  std::puts("the shim's own tests: ok");
}
