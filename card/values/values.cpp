// Values on the paper card: an operator runs its CUDA kernel first, so that every allocation is the real one, and then
// the CPU's kernel over the same memory. The CPU's results replace those of the CUDA kernel. Settings: see README.md.
//
// Preloading this library also pulls in libtorch_cuda, which linkers drop from programs that call nothing in it.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <dlfcn.h>
#include <torch/csrc/cuda/memory_snapshot.h>
#include <torch/library.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <unordered_set>

#include "fused.h"

extern "C" void paper_assert();

namespace {

// Operators whose results have a shape that is read from memory, so a kernel that does nothing must not decide it.
const std::unordered_set<std::string> shaped_by_values = {
    "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive",
    "aten::unique_dim_consecutive", "aten::bincount", "aten::repeat_interleave.Tensor", "aten::_unique", "aten::equal"};

// Operators that compute nothing, and so are left as they are.
bool is_left(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::_local_scalar_dense", "aten::record_stream", "aten::is_pinned", "aten::_pin_memory", "aten::is_set_to",
      "aten::_has_same_storage_numel", "aten::_cudnn_init_dropout_state", "aten::_cudnn_rnn_flatten_weight"};
  const auto begins = [&](const char* with) { return name.rfind(with, 0) == 0; };
  return names.count(name) || begins("aten::empty") || begins("aten::set_") || begins("aten::resize") ||
         begins("aten::_resize");
}

// Operators that are not registered for CUDA alone; they choose kernels inside that are not operators.
bool is_of_all(const std::string& name) {
  return name == "aten::copy_" || name == "aten::convolution" || name == "aten::convolution_backward";
}

// Hides the CPU's work from the program: no profiler, recorder or mode of this thread sees it.
class Unseen {
  at::DisableRecordFunctionGuard no_callbacks;
  c10::impl::ForceDispatchKeyGuard plain{
      c10::default_included_set, c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  std::shared_ptr<c10::ThreadLocalDebugInfo> before = c10::ThreadLocalDebugInfo::current();

 public:
  Unseen() { c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(nullptr); }
  ~Unseen() { c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(before); }
};

// Errors of libraries that are stubs here: only the CPU can run such an operator.
bool is_of_stub(const std::string& text) {
  for (const char* library : {"cusolver error", "cusparse error", "CUSPARSE_STATUS", "CUSOLVER_STATUS", "cuFFT error"})
    if (text.find(library) != std::string::npos) return true;
  return false;
}

// An index out of range, which a CUDA kernel would have found by an assertion.
bool is_bad_index(const std::string& text) {
  return text.find("out of range") != std::string::npos || text.find("out of bounds") != std::string::npos;
}

thread_local int depth = 0;

std::atomic<bool> are_off{false};

class Served : public c10::OperatorKernel {
  c10::SafeKernelFunction original;
  std::string name;
  Fused fused_form;
  bool is_shaped_by_values, draws;

 public:
  Served(c10::SafeKernelFunction original, std::string name, bool draws)
      : original(std::move(original)), name(name), fused_form(fused(name)),
        is_shaped_by_values(shaped_by_values.count(name)), draws(draws) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    // Results of a nested operator are overwritten with the results of the outer one.
    const auto& schema = op.schema();
    const Stack arguments(stack->end() - static_cast<int64_t>(schema.arguments().size()), stack->end());
    if (are_off || (depth && !is_shaped_by_values) || is_fake(arguments)) return original.callBoxed(op, keys, stack);
    struct Inside { Inside() { depth++; } ~Inside() { depth--; } } inside;
    const auto card = card_of(arguments);
    const auto draw = draws ? draw_of(arguments, card) : Draw();
    const auto overwritten = overwritten_by(schema, arguments);
    const bool ran = !is_shaped_by_values && run(op, keys, stack);
    for (const auto& [tensor, bytes] : overwritten) tensor.copy_(bytes);
    try {
      serve(op, arguments, draw, ran, card, stack);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      if (ran && is_bad_index(error.what())) return paper_assert();
      if (!ran) throw;
      const std::string text = error.what(), why = text.substr(0, text.find_first_of(".\n"));
      TORCH_CHECK(false, "paper card: no values for ", name, " (", why, "); PAPER_VALUES=0 runs without them");
    }
  }

 private:
  // True for tensors without memory, as in a dry run: an operator that calls others arrives here with them.
  static bool is_fake(const Stack& arguments) {
    for (const auto& argument : arguments)
      for (const auto& tensor : tensors_of(argument))
        if (tensor.key_set().has(c10::DispatchKey::Fake)) return true;
    return false;
  }

  static at::Device card_of(const Stack& arguments) {
    std::optional<at::Device> card;
    for (const auto& argument : arguments) {
      for (const auto& tensor : tensors_of(argument))
        if (!card && tensor.is_cuda()) card = tensor.device();
      if (!card && argument.isDevice() && argument.toDevice().is_cuda()) card = argument.toDevice();
    }
    return card.value_or(at::Device(at::kCUDA, 0));
  }

  static Draw draw_of(const Stack& arguments, at::Device card) {
    at::Generator generator = at::globalContext().defaultGenerator(card);
    for (const auto& argument : arguments)
      if (argument.isGenerator()) generator = argument.toGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    return {generator.current_seed(), generator.get_offset()};
  }

  // Copies of the arguments that an operator writes: CUDA's kernel may already write to them by a fill or a copy.
  using Kept = std::vector<std::pair<at::Tensor, at::Tensor>>;
  static Kept overwritten_by(const c10::FunctionSchema& schema, const Stack& arguments) {
    Kept all;
    const Unseen unseen;
    for (size_t i = 0; i < arguments.size(); i++) {
      const auto* aliased = schema.arguments()[i].alias_info();
      if (!aliased || !aliased->isWrite() || schema.arguments()[i].is_out()) continue;
      for (const auto& tensor : tensors_of(arguments[i]))
        if (tensor.is_cuda()) all.emplace_back(host_view(tensor), host_view(tensor).clone());
    }
    return all;
  }

  bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    try {
      original.callBoxed(op, keys, stack);
      return true;
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      if (!is_of_stub(error.what())) throw;
      return false;
    }
  }

  void serve(const c10::OperatorHandle& op, const Stack& arguments, const Draw& draw, bool ran, at::Device card,
             Stack* stack) {
    const auto& schema = op.schema();
    Stack results, held;
    {
      const Unseen unseen;
      const auto generator = draws ? draw.generator() : at::Generator();
      for (size_t i = 0; i < arguments.size(); i++)
        results.push_back(on_cpu(arguments[i], *schema.arguments()[i].real_type(), generator));
      // Operators with `out` return references into the stack.
      held = results;
      if (fused_form) results = fused_form(held, draw);
      else op.callBoxed(&results);
      if (ran) return take_over(stack, schema.returns().size(), results);
    }
    torch::jit::drop(*stack, arguments.size());
    for (size_t i = 0; i < results.size(); i++) stack->push_back(returned(schema, i, arguments, results[i], card));
  }

  // Copies the CPU's results into the tensors that CUDA's kernel has returned.
  static void take_over(Stack* stack, size_t count, const Stack& results) {
    const auto first = stack->size() - count;
    for (size_t i = 0; i < count && i < results.size(); i++) {
      auto& ours = (*stack)[first + i];
      const auto to = tensors_of(ours), from = tensors_of(results[i]);
      for (size_t k = 0; k < to.size() && k < from.size(); k++) give(to[k], from[k]);
      if (!ours.isTensor() && !ours.isTensorList() && !results[i].isNone()) ours = results[i];
    }
  }

  // The result of an operator without a CUDA kernel: the argument that it returns, or a new tensor.
  static IValue returned(const c10::FunctionSchema& schema, size_t at, const Stack& arguments, const IValue& result,
                         at::Device card) {
    const auto* alias_info = schema.returns()[at].alias_info();
    for (size_t i = 0; alias_info && alias_info->isWrite() && i < arguments.size(); i++) {
      const auto* of = schema.arguments()[i].alias_info();
      if (of && of->beforeSets() == alias_info->beforeSets()) return arguments[i];
    }
    if (result.isTensor() && result.toTensor().defined()) return brought(result.toTensor(), card);
    if (!result.isTensorList()) return result;
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : result.toTensorVector()) list.push_back(brought(tensor, card));
    return list;
  }
};

// Ends the program unless every library of CUDA is the card's: libtorch's own search path would find a real one next to
// libtorch first.
void check_libraries() {
  Dl_info here;
  dladdr(reinterpret_cast<void*>(&check_libraries), &here);
  const std::string folder = std::filesystem::canonical(here.dli_fname).parent_path().string() + "/";
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find('/') == std::string::npos ? "" : line.substr(line.find('/'));
    const auto file = path.substr(path.rfind('/') + 1);
    for (const char* library : {"libcudart.", "libcupti.", "libcuda.", "libcublas.", "libcudnn."}) {
      if (file.rfind(library, 0) != 0 || path == folder + file) continue;
      std::cerr << "paper card: " << path << " is loaded in place of the card's, which is in " << folder << "\n";
      _exit(2);
    }
  }
}

// Only cuDNN has this operator, and nets with an LSTM call it: their weights become views of one storage.
at::Tensor flatten_weights(at::TensorList weights, int64_t, c10::SymInt, int64_t, c10::SymInt, c10::SymInt, int64_t, bool,
                           bool) {
  int64_t elements = 0, at = 0;
  for (const auto& weight : weights) elements += weight.numel();
  const auto all = at::empty({elements}, weights[0].options());
  for (const at::Tensor& weight : weights) {
    const auto part = all.narrow(0, at, weight.numel()).view(weight.sizes());
    part.copy_(weight);
    weight.set_(part);
    at += weight.numel();
  }
  return all;
}

bool returns_view(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns())
    if (result.alias_info() && !result.alias_info()->isWrite()) return true;
  return false;
}

struct Silent : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void serve_all(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& operator_name : dispatcher.getAllOpNames()) {
    const auto name = c10::toString(operator_name);
    const auto op = dispatcher.findSchema(operator_name);
    if (!op || name.rfind("aten::", 0) != 0 || is_left(name) || returns_view(op->schema())) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CUDA) && !is_of_all(name)) continue;
    auto original = op->getComputedKernelForDispatchKey(c10::DispatchKey::CUDA);
    auto served = std::make_unique<Served>(std::move(original), name, op->hasTag(at::Tag::nondeterministic_seeded));
    library.impl(name.c_str() + 6, torch::CppFunction::makeFromBoxedFunctor(std::move(served)));
  }
}

const bool started = [] {
  check_libraries();
  // The cuDNN stubs compute nothing, and libtorch runs without them.
  at::globalContext().setUserEnabledCuDNN(false);
  at::globalContext().setSDPUseCuDNN(false);
  // Each registration replaces a kernel, which libtorch warns about.
  Silent silent;
  c10::WarningUtils::WarningHandlerGuard guard(&silent);
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  const char* values = getenv("PAPER_VALUES");
  if (!values || *values != '0') serve_all(library);
  library.impl("_cudnn_rnn_flatten_weight", &flatten_weights);
  return true;
}();

}  // namespace

#define FOR_TESTS extern "C" __attribute__((visibility("default")))

FOR_TESTS void paper_set_values(int on) { are_off = !on; }

// Begins or ends the capture of a graph on a stream of its own, which is the thread's meanwhile.
extern "C" int cudaStreamBeginCapture(void* stream, int mode);
extern "C" int cudaStreamEndCapture(void* stream, void** graph);
FOR_TESTS void paper_capture(int begins) {
  static thread_local std::optional<c10::StreamGuard> own;
  void* graph = nullptr;
  if (begins) own.emplace(c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(c10::Device(c10::kCUDA, 0)));
  auto* stream = own->current_stream().native_handle();
  if (begins) cudaStreamBeginCapture(stream, 0);
  else cudaStreamEndCapture(stream, &graph), own.reset();
}

// libtorch's own record of its allocator, and the file that `torch.cuda.memory._dump_snapshot` writes of it.
FOR_TESTS void paper_record_history() {
  torch::cuda::_record_memory_history(std::optional<std::string>("all"), std::nullopt, "all", SIZE_MAX);
}
FOR_TESTS void paper_write_snapshot(const char* path) {
  std::ofstream(path, std::ios::binary) << torch::cuda::_memory_snapshot_pickled();
}
