// A dry run: every operator of a thread comes here, below autograd and autocast and above all kernels.
//
// libtorch reserves the dispatch key Fake for code outside of libtorch and has no kernel there. The layers above it run
// as always: the graph, autocast, the choice of kernels by device. No kernel below it runs on data of the user:
// operators make tensors with shapes, strides and a device, whose memory is a range of addresses without pages.
//
// # Why
//
// A kernel without a Meta kernel is called with zeros, because only the kernel knows how much scratch it takes. Rules
// for the common kernels know shapes alone, at a hundredth of the time.

#include "dry_call.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/IndexingUtils.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "reductions.h"
#include "rules.h"

namespace toma {
namespace {

// Operators of a dry run, after which it is refused: a loop that waits for data may never end if all data are 1.
constexpr size_t most_operators = 1 << 18;

bool is_of(const Dry& run, const at::Tensor& tensor) {
  const auto* block = tensor.defined() && tensor.has_storage() ? block_of(tensor) : nullptr;
  return block != nullptr && block->run.get() == &run;
}

// Undoes the changes of autograd and its engine to a tensor of the user. Nothing else is written, because another
// thread may train the same variables: gradients that it has made or dropped meanwhile stay as they are.
void put_back(const Dry& run, TensorBefore& before) {
  auto& tensor = *before.tensor.unsafeGetTensorImpl();
  if (is_of(run, tensor.grad())) {
    tensor.mutable_grad() = before.gradient;
  }
  auto counter = tensor.version_counter();
  if (before.is_written && counter.current_version() != before.version) {
    counter.set_version(before.version);
  }
}

// Refuses a change that could not be undone, and remembers the state of a tensor before one that can.
void admit(const Call& call, const at::Tensor& tensor, bool is_written) {
  if (tensor.layout() != c10::kStrided || tensor.is_quantized()) {
    call.refuse(tensor.is_quantized() ? "takes a quantized tensor" : "takes a tensor of layout " + c10::str(tensor.layout()));
  }
  const auto* block = block_of(tensor);
  if (block != nullptr && block->run != call.run) {
    call.refuse("takes a tensor that was kept from another dry run");
  }
  const auto root = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
  if (block == nullptr && tensor.requires_grad() && !root.is_leaf()) {
    call.refuse("takes a tensor whose gradient leads into a graph from outside of the body");
  }
  if (block == nullptr && is_written && gives_gradient(call.op.schema(), call.arguments, tensor)) {
    // The graph of the dry run would stay on the tensor.
    call.refuse("gives a gradient to a tensor from outside of the body");
  }
  // Without gradients, tensors that are only read do not change, and another thread may be training them.
  const auto is_changed = is_written || (tensor.requires_grad() && c10::GradMode::is_enabled());
  if (block == nullptr && !tensor.is_inference() && is_changed) {
    const std::lock_guard<std::mutex> locked(call.run->lock);
    const auto held = [&](const at::Tensor& changed) -> TensorBefore& {
      const auto& impl = *changed.unsafeGetTensorImpl();
      const TensorBefore now{changed, impl.grad(), impl.version_counter().current_version()};
      return call.run->held.try_emplace(&impl, now).first->second;
    };
    held(root).is_written |= is_written;
    if (tensor.requires_grad() && tensor.is_leaf()) {
      // A variable may be a view, with a gradient of its own. It shares its version with the root.
      held(tensor);
    }
  }
}

// Results of the CPU kernel for zeros, as Meta tensors, and the bytes of its scratch.
using KernelResult = std::pair<Stack, size_t>;

KernelResult run_kernel(const Call& call) {
  Undisturbed counted;
  auto stack = twins_on(c10::kCPU, call);
  // Two `out` arguments are returned as references to the stack, which drops them, so they are held here.
  const auto arguments = stack;
  counted.allocated = counted.peak = 0;
  call.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  auto scratch_bytes = counted.peak;
  const auto results = mapped(stack, [&](const at::Tensor& result) {
    TORCH_CHECK(result.layout() == c10::kStrided, "makes a tensor of layout ", result.layout());
    // A result that was shrunk keeps its memory; results that share memory have a part each.
    const auto bytes = result.storage().use_count() == 1 ? result.storage().nbytes() : result.nbytes();
    scratch_bytes -= static_cast<int64_t>(bytes);
    return twin(result, bytes, c10::kMeta, *c10::GetAllocator(c10::kMeta));
  });
  return {results, static_cast<size_t>(std::max<int64_t>(scratch_bytes, 0))};
}

// Runs the operator's CPU kernel on zeros to learn the shapes of results and the scratch, where no rule and no Meta kernel
// knows them. Answers are kept by the arguments, because a call takes as long as the kernel. On other devices only the
// shapes count.
Stack by_kernel(Call& call) {
  constexpr size_t most = 4096;
  std::unordered_map<std::string, KernelResult> forgotten;
  auto* kept = of_thread<std::unordered_map<std::string, KernelResult>>();
  auto& answers = kept == nullptr ? forgotten : *kept;
  if (!call.op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU) || call.op.schema().getNamespace() != "aten") {
    call.refuse("has no rule for the shapes of its results");
  }
  std::ostringstream question;
  question << call.op.operator_name();
  const auto describe = [&](const at::Tensor& tensor) {
    question << tensor.scalar_type() << tensor.sizes() << tensor.strides();
    return at::Tensor();
  };
  question << c10::ArrayRef<c10::IValue>(mapped(call.arguments, describe));
  if (answers.size() >= most) {
    answers.clear();
  }
  auto known = answers.find(question.str());
  try {
    known = known != answers.end() ? known : answers.emplace(question.str(), run_kernel(call)).first;
  } catch (const c10::Error& error) {
    call.refuse(error.what_without_backtrace());
  }
  if (call.device.is_cpu()) {
    call.scratch = call.run->allocator(c10::kCPU).allocate(known->second.second);
  }
  return known->second.first;
}

// Takes shapes from the Meta kernel, if one is registered. Some are registered and only throw.
Stack by_meta(Call& call) {
  if (call.named.shape_rule == TOMA_SHAPE_INDEX) {
    // Masks become indices of their elements, at most of all.
    const auto indices = at::native::expandTensors(call.arguments[0].toTensor(), call.arguments[1].toOptionalTensorList());
    call.arguments[1] = at::native::toListOfOptionalTensors(indices);
  }
  try {
    const Undisturbed undisturbed;
    auto stack = twins_on(c10::kMeta, call);
    const auto arguments = stack;
    call.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
    return stack;
  } catch (const c10::NotImplementedError&) {
    return by_kernel(call);
  }
}

// Results that depend on data: the next number that the run assumes (1 unless it was set), or the largest possible
// shape. If another number than 1 is assumed, half of that shape.
Stack unknown(const Call& call) {
  call.run->note(call.name());
  const auto& input = call.arguments[0].toTensor();
  const auto kind = call.op.schema().returns()[0].type()->kind();
  if (kind == c10::TypeKind::BoolType || kind == c10::TypeKind::NumberType) {
    const auto is_float = c10::isFloatingType(input.scalar_type());
    const auto answer = call.run->answer;
    call.run->answer += call.run->step;
    if (kind == c10::TypeKind::BoolType || input.scalar_type() == c10::kBool) {
      return {c10::Scalar(answer != 0)};
    }
    // Programs take integers for counts and places.
    return {is_float ? c10::Scalar(answer) : c10::Scalar(answer > 0 ? static_cast<int64_t>(answer) : int64_t{0})};
  }
  const auto some = [&](int64_t most) { return call.run->answer == 1 ? most : (most + 1) / 2; };
  if (call.named.shape_rule == TOMA_SHAPE_MASKED_SELECT) {
    const auto most = at::infer_size(input.sizes(), call.arguments[1].toTensor().sizes());
    return {rules::made({some(c10::multiply_integers(most))}, input.scalar_type())};
  }
  if (call.named.shape_rule != TOMA_SHAPE_NON_ZERO) {
    call.refuse("the shape of its result depends on data");
  }
  // As with the kernel, the result is the transpose of the tensor that is filled.
  return {rules::made({input.dim(), some(input.numel())}, c10::kLong).t()};
}

// Allocates the scratch that CUDA's kernels take after their results; for reductions, also their counter of blocks.
void take_scratch(const Call& call) {
  const auto& named = call.named;
  const auto bytes = [&] {
    const Undisturbed undisturbed;
    const auto twins = twins_on(c10::kMeta, call);
    return named.reduces ? reductions::scratch_bytes(call.op.schema(), twins, call.device) : rules::scratch(named.shape_rule, twins);
  }();
  if (bytes > 0) {
    auto& allocator = call.run->allocator(call.device);
    const auto scratch = allocator.allocate(static_cast<size_t>(bytes));
    const auto counts = named.reduces ? allocator.allocate(sizeof(int)) : c10::DataPtr();
  }
}

bool is_written(const c10::Argument& argument) { return argument.alias_info() != nullptr && argument.alias_info()->isWrite(); }

// Makes a dry tensor that looks like another one.
at::Tensor dry_like(const Call& call, const at::Tensor& like) {
  auto made = twin(like, like.storage().nbytes(), call.device, call.run->allocator(call.device), c10::DispatchKeySet(fake));
  if (!call.device.is_cpu()) {
    // A kernel that bypasses us would poison the device.
    made.storage().unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(no_data);
  }
  return made;
}

// Resizes a dry tensor on an accelerator, where libtorch's code would read the memory first.
void resize(const Call& call) {
  const auto& tensor = call.arguments[0].toTensor();
  auto& impl = *tensor.unsafeGetTensorImpl();
  const auto format = call.arguments[2].toOptional<at::MemoryFormat>().value_or(at::MemoryFormat::Contiguous);
  const auto resized = rules::made(call.arguments[1].toIntVector(), tensor.scalar_type(), format);
  const auto bytes = resized.nbytes() + static_cast<size_t>(tensor.storage_offset()) * tensor.itemsize();
  if (bytes > tensor.storage().nbytes()) {
    const auto grown = rules::made({static_cast<int64_t>(bytes / tensor.itemsize())}, tensor.scalar_type());
    impl.set_storage_keep_dtype(dry_like(call, grown).storage());
  }
  impl.set_sizes_and_strides(resized.sizes(), resized.strides());
  torch::jit::drop(call.stack, call.op.schema().arguments().size());
  call.stack.emplace_back(tensor);
}

// Turns results into dry tensors, except those that are arguments, which have the same order.
void finish(Call& call, Stack results) {
  const auto& schema = call.op.schema();
  const auto dry = [&](const at::Tensor& like) {
    if (like.is_quantized()) {
      call.refuse("makes a quantized tensor");
    }
    return dry_like(call, like);
  };
  size_t written = 0;
  for (size_t at = 0; at < results.size(); ++at) {
    if (!is_written(schema.returns()[at])) {
      results[at] = mapped({results[at]}, dry)[0];
      continue;
    }
    while (!is_written(schema.arguments()[written])) {
      ++written;
    }
    const auto& argument = call.arguments[written++];
    if (results[at].isTensor() && argument.toTensor().sizes() != results[at].toTensor().sizes()) {
      argument.toTensor().resize_(results[at].toTensor().sizes());
    }
    results[at] = argument;
  }
  torch::jit::drop(call.stack, schema.arguments().size());
  call.stack.insert(call.stack.end(), results.begin(), results.end());
}

// True if an operator only calls others and makes nothing itself. `zeros` is registered as composite on other devices
// alone; the code of `repeat` permutes duplicate dims if it runs on dry tensors.
bool is_composite(const Call& call) {
  const auto backend = c10::computeDispatchKey(c10::kFloat, c10::kStrided, call.device);
  const auto& named = call.named;
  return named.calls_others || (named.calls_others_on_cpu && call.device.is_cpu()) ||
      (!call.op.hasKernelForDispatchKey(backend) && call.op.hasComputedKernelForDispatchKey(backend) &&
       rules::of(named.shape_rule) == nullptr && !named.calls_none);
}

// Results of an operator that makes tensors, from the most exact source.
Stack made(Call& call) {
  const auto runs_kernels = call.device.is_cpu() && !call.run->by_shapes;
  const auto& named = call.named;
  // The kernel that takes rows of a table has no scratch, and zeros in place of the table would be many.
  if (const auto rule = rules::of(named.shape_rule); rule != nullptr && (!runs_kernels || named.takes_no_scratch)) {
    const Undisturbed undisturbed;
    return rule(twins_on(c10::kMeta, call));
  }
  const auto has_meta = call.op.hasKernelForDispatchKey(c10::DispatchKey::Meta) || named.runs_on_meta;
  const auto needs_kernel = runs_kernels && ((call.has_copies && named.copies_operands) || named.takes_scratch);
  return has_meta && !needs_kernel ? by_meta(call) : by_kernel(call);
}

// An operator may match several of these checks, so they have an order: results that depend on data, for which kernels
// would read it; changes of shape, which would pass as writes; operators that make nothing; composites, which only call
// others; operators that make tensors; writes in place, after which the results are the arguments.
void run(Call& call) {
  const auto& schema = call.op.schema();
  const auto &arguments = schema.arguments(), &results = schema.returns();
  const auto is_made = [](const c10::Argument& result) {
    const auto& type = *result.type();
    return result.alias_info() == nullptr && (type.isSubtypeOf(*c10::TensorType::get()) || type.isSubtypeOf(*c10::ListType::ofTensors()));
  };
  if (call.op.hasTag(at::Tag::data_dependent_output) || (call.op.hasTag(at::Tag::dynamic_output_shape) && call.named.shape_rule != TOMA_SHAPE_INDEX)) {
    return finish(call, unknown(call));
  }
  if (call.op.hasTag(at::Tag::inplace_view) || call.named.resizes) {
    if (block_of(call.arguments[0].toTensor()) == nullptr) {
      call.refuse("would change the shape of a tensor from outside of the body");
    }
    // `set_` has this property, too, and takes other arguments.
    const auto is_resize = call.named.resizes && schema.argumentIndexWithName("memory_format").has_value();
    return is_resize && !call.device.is_cpu() ? resize(call) : call.below();
  }
  if (!schema.is_mutable() && std::none_of(results.begin(), results.end(), is_made)) {
    return call.below();
  }
  const auto has_out = std::any_of(arguments.begin(), arguments.end(), [](const auto& one) { return one.is_out(); });
  if (!schema.is_mutable() || has_out || !std::all_of(results.begin(), results.end(), is_written)) {
    if (is_composite(call)) {
      return call.below();
    }
    finish(call, made(call));
    return call.device.is_cuda() && (call.named.reduces || call.named.shape_rule != 0) ? take_scratch(call) : void();
  }
  finish(call, Stack(results.size()));
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  std::shared_ptr<Dry> dry;
  State::each([&](Recorder& recorder) { dry = recorder.dry; });
  if (dry == nullptr) {
    throw c10::NotImplementedError(
        c10::str("dry run: ", op.operator_name(), " takes a tensor of another thread's dry run, or one that was kept from it: ",
                 "train no variable while another thread predicts a step of it"),
        nullptr);
  }
  const auto& described = op.schema().arguments();
  Call call{std::move(dry), op, keys, *stack, torch::jit::last(*stack, described.size()).vec()};
  for (size_t at = 0; at < described.size(); ++at) {
    const auto& argument = call.arguments[at];
    call.device = argument.isDevice() ? argument.toDevice() : call.device;
    each_tensor(argument, [&](const at::Tensor& tensor) {
      admit(call, tensor, is_written(described[at]));
      call.has_copies |= c10::isReducedFloatingType(tensor.scalar_type()) || !tensor.is_non_overlapping_and_dense();
      call.device = tensor.is_cpu() ? call.device : tensor.device();
    });
  }
  if (++call.run->operators > most_operators) {
    call.refuse("one more than " + std::to_string(most_operators) + " operators: a loop that waits for data does not end");
  }
  run(call);
}

}  // namespace

// No operator writes to a dry tensor, so a page that is resident was touched by the program.
std::optional<uint64_t> written_by_host(const c10::StorageImpl& storage) noexcept {
  constexpr uint64_t most_bytes = 1 << 20;
  const auto& data = const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks();
  unsigned char page = 0;
  if (!is_dry(data) || data.get() == nullptr || ::mincore(data.get(), 1, &page) != 0 || (page & 1) == 0) {
    return std::nullopt;
  }
  // Bytes beyond these are not compared.
  const auto bytes = static_cast<size_t>(std::min(bytes_of(storage), most_bytes));
  return std::hash<std::string_view>()({static_cast<const char*>(data.get()), bytes});
}

Level& dry_level() noexcept {
  static thread_local Level level;
  return level;
}

}  // namespace toma

int32_t toma_dry_begin(bool by_shapes, toma_recorder** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    // No thread includes the key yet, so the tables of operators, which are read without a lock, may change.
    [[gnu::used]] static const auto* registered = toma::register_fallback(
        toma::fake, c10::KernelFunction::makeFromBoxedFunction<&toma::fallback>(), "dry run");
    auto recorder = std::make_unique<toma_recorder>();
    recorder->dry = std::make_shared<toma::Dry>();
    recorder->dry->by_shapes = by_shapes;
    toma::State::enter(*recorder);
    c10::impl::tls_set_dispatch_key_included(toma::fake, true);
    *out = recorder.release();
  });
}

void toma_dry_answer(toma_recorder* recorder, double first, double step) noexcept {
  if (recorder->dry != nullptr) {
    recorder->dry->answer = first;
    recorder->dry->step = step;
  }
}

bool toma_dry_has_seeded(const toma_recorder* recorder) noexcept {
  const auto& dry = recorder->dry;
  const auto was_seeded = [](const toma::Random& random) { return random.was_seeded(); };
  return dry != nullptr && std::any_of(dry->random.begin(), dry->random.end(), was_seeded);
}

void toma_dry_end(toma_recorder* recorder, toma_dry_outcome* out) noexcept {
  auto& dry = *recorder->dry;
  c10::impl::tls_set_dispatch_key_included(toma::fake, false);
  for (auto& [tensor, before] : dry.held) {
    toma::put_back(dry, before);
  }
  dry.held.clear();
  // Kernels drew from another generator, but the body may have set a seed.
  for (const auto& random : dry.random) {
    random.undo_seed();
  }
  const auto keeps_on_gpu = [&dry] {
    const std::lock_guard<std::mutex> held(dry.lock);
    const auto is_on_gpu = [](const toma::DryBlock* block) { return !block->device.is_cpu(); };
    return std::any_of(dry.living.begin(), dry.living.end(), is_on_gpu);
  };
  // A thread of backward drops the last nodes of a step on a GPU a moment after the step, on busy cores much later.
  for (int waits = 0; waits < 1000 && keeps_on_gpu(); ++waits) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::lock_guard<std::mutex> held(dry.lock);
  *out = {dry.living.size(), 0, {}, {}, {}};
  for (const auto* block : dry.living) {
    out->kept_bytes += block->bytes;
    std::strncpy(out->kept_operator, block->made_by, sizeof out->kept_operator - 1);
  }
  dry.unknown.copy(out->unknown, sizeof out->unknown - 1);
  dry.refused.copy(out->refused, sizeof out->refused - 1);
}
