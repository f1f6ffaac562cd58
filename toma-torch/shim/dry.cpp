// A dry run: below autograd and autocast, and above all kernels, every operator of a thread comes here.
//
// libtorch reserves the dispatch key Fake for code outside of it and has no kernel there. What stands
// above it runs as always: the graph, autocast, the choice of kernels by device. No kernel below it runs
// on data of the user's: what operators make are tensors with shapes, strides and a device, whose
// memory is a range of addresses that nothing stands behind.

#include "dry.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/resize_ops.h>

#include <sstream>

#include "call.h"
#include "cases.h"
#include "guard.h"

namespace toma {
namespace {

at::Tensor meta_of(const at::Tensor& like) { return twin_on(like, c10::kMeta); }

// What autograd and its engine do to a tensor of the user's is taken back at the end.
void hold(const Call& call, const at::Tensor& tensor) {
  if (call.is_dry(tensor) || tensor.is_inference()) {
    return;
  }
  const std::lock_guard<std::mutex> locked(call.run->lock);
  const auto [entry, is_new] = call.run->held.try_emplace(tensor.unsafeGetTensorImpl());
  if (is_new) {
    const auto has_gradient = tensor.requires_grad() && tensor.is_leaf();
    entry->second = {tensor, has_gradient ? tensor.grad() : at::Tensor(), static_cast<uint32_t>(tensor._version())};
  }
}

// What has not changed is not written: another thread may read it.
void put_back(Held& before) {
  const auto& tensor = before.tensor;
  if (tensor.requires_grad() && tensor.is_leaf() && !tensor.grad().is_same(before.gradient)) {
    tensor.mutable_grad() = before.gradient;
  }
  auto counter = tensor.unsafeGetTensorImpl()->version_counter();
  if (counter.current_version() != before.version) {
    counter.set_version(before.version);
  }
}

// What could not be taken back is refused before it is done.
void look_at(const Call& call, const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided) {
    call.refuse("takes a tensor of layout " + c10::str(tensor.layout()));
  }
  if (call.is_dry(tensor)) {
    return;
  }
  if (block_of(tensor) != nullptr) {
    call.refuse("takes a tensor that was kept from another dry run");
  }
  if (tensor.requires_grad()) {
    const auto root = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
    if (!root.is_leaf()) {
      call.refuse("takes a tensor whose gradient leads into a graph from outside of the body");
    }
    hold(call, root);
  }
}

// The arguments with zeros, and random numbers from elsewhere than the program's.
Stack zeros_of(const Call& call) {
  static const auto& random = *new at::Generator(at::detail::createCPUGenerator());
  auto stack = mapped(call.arguments, [](const at::Tensor& like) { return twin_on(like, c10::kCPU); });
  if (const auto at = call.op.schema().argumentIndexWithName("generator")) {
    stack[static_cast<size_t>(*at)] = random;
  }
  return stack;
}

// What a kernel makes, as Meta, and what it takes meanwhile beyond that.
struct Told {
  Stack results;
  int64_t scratch_bytes;
};

Told told_by_kernel(const Call& call) {
  const Exempt exempt;
  const Undisturbed undisturbed;
  const Unobserved preparing;
  auto stack = zeros_of(call);
  Told told{{}, 0};
  {
    const Unobserved kernel;
    call.below(stack);
    told.scratch_bytes = kernel.peak;
  }
  told.results = mapped(stack, [&](const at::Tensor& result) {
    TORCH_CHECK(result.layout() == c10::kStrided, "makes a tensor of layout ", result.layout());
    auto meta = meta_of(result);
    // A result that was made smaller keeps its memory; those that share one have a part each.
    if (result.storage().use_count() == 1) {
      meta.storage().set_nbytes(result.storage().nbytes());
    }
    told.scratch_bytes -= static_cast<int64_t>(meta.storage().nbytes());
    return meta;
  });
  return told;
}

// Asked once for each shape: that takes as long as the kernel does.
Told kernel_says(const Call& call) {
  static std::mutex lock;
  static auto& answers = *new std::unordered_map<std::string, Told>;
  constexpr size_t most = 4096;
  std::ostringstream question;
  question << call.op.operator_name();
  const auto describe = [&](const at::Tensor& tensor) {
    question << tensor.scalar_type() << tensor.sizes() << tensor.strides();
    return at::Tensor();
  };
  for (const auto& argument : call.arguments) {
    question << ';' << mapped(argument, describe);
  }
  const auto find = [&] {
    const std::lock_guard<std::mutex> held(lock);
    const auto found = answers.find(question.str());
    return found == answers.end() ? std::nullopt : std::optional(found->second);
  };
  if (const auto known = find()) {
    return *known;
  }
  const auto told = told_by_kernel(call);
  const std::lock_guard<std::mutex> held(lock);
  if (answers.size() >= most) {
    answers.clear();
  }
  return answers[question.str()] = told;
}

Stack ask_kernel(const Call& call, c10::DataPtr& scratch) {
  if (!call.device.is_cpu() || !has_cpu_kernel(call.op)) {
    call.refuse("no rule says what it makes");
  }
  try {
    const auto told = kernel_says(call);
    scratch = dry_data(call.run, static_cast<uint64_t>(std::max<int64_t>(told.scratch_bytes, 0)), c10::kCPU);
    return told.results;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    call.refuse(error.what_without_backtrace());
  }
}

// Masks among indices, which kernels turn into as many indices as they hold, as the most they can hold.
Stack unmasked(Stack arguments) {
  if (arguments.size() < 2 || !arguments[1].isOptionalTensorList()) {
    return arguments;
  }
  c10::List<std::optional<at::Tensor>> indices;
  for (const std::optional<at::Tensor>& index : arguments[1].toOptionalTensorVector()) {
    const auto is_mask = index && (index->scalar_type() == c10::kBool || index->scalar_type() == c10::kByte);
    for (int64_t dim = 0; is_mask && dim < index->dim(); ++dim) {
      indices.push_back(rules::made({index->numel()}, c10::kLong));
    }
    if (!is_mask) {
      indices.push_back(index);
    }
  }
  arguments[1] = indices;
  return arguments;
}

// Products copy operands that libraries cannot take as they are: a good part of what a small step takes.
bool copies_operands(const Call& call) {
  bool copies = false;
  for (const auto& argument : call.arguments) {
    each_tensor(argument, [&](const at::Tensor& tensor) {
      copies |= c10::isReducedFloatingType(tensor.scalar_type()) || !tensor.is_non_overlapping_and_dense();
    });
  }
  const auto& name = call.name();
  return copies && (name == "aten::mm" || name == "aten::addmm" || name == "aten::bmm" || name == "aten::baddbmm");
}

// Kernels that take as much as their results besides, or more.
bool takes_scratch(const std::string& name) {
  return name == "aten::mse_loss" || name == "aten::smooth_l1_loss" || name == "aten::binary_cross_entropy" ||
      name.rfind("aten::upsample_", 0) == 0;
}

// Where a Meta kernel is registered, it says the shapes. Some are registered and only throw.
Stack by_meta(const Call& call, c10::DataPtr& scratch) {
  const auto asks = call.device.is_cpu() && !call.run->by_shapes;
  if (asks && copies_operands(call)) {
    return ask_kernel(call, scratch);
  }
  try {
    const Undisturbed undisturbed;
    auto results = mapped(unmasked(call.arguments), meta_of);
    for (auto& argument : results) {
      argument = argument.isDevice() ? c10::Device(c10::kMeta) : argument;
    }
    call.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &results);
    if (asks && takes_scratch(call.name())) {
      ask_kernel(call, scratch);
    }
    return results;
  } catch (const c10::NotImplementedError&) {
    return ask_kernel(call, scratch);
  }
}

void tell(const Call& call) {
  const std::lock_guard<std::mutex> held(call.run->lock);
  auto& unknown = call.run->unknown;
  if (unknown.find(call.name()) == std::string::npos) {
    unknown += (unknown.empty() ? "" : ", ") + call.name();
  }
}

Stack answer(const Call& call) {
  tell(call);
  if (call.name() == "aten::_local_scalar_dense") {
    const auto type = call.arguments[0].toTensor().scalar_type();
    return {c10::isFloatingType(type) ? c10::Scalar(1.0) : type == c10::kBool ? c10::Scalar(true) : c10::Scalar(1)};
  }
  if (call.op.schema().returns()[0].type()->kind() != c10::TypeKind::BoolType) {
    call.refuse("its result depends on data");
  }
  return {true};
}

// As many results as there can be.
Stack largest(const Call& call) {
  tell(call);
  const auto& input = call.arguments[0].toTensor();
  if (call.name() == "aten::masked_select") {
    return {rules::made({std::max(input.numel(), call.arguments[1].toTensor().numel())}, input.scalar_type())};
  }
  if (call.name() != "aten::nonzero") {
    call.refuse("the shape of its result depends on data");
  }
  // As the kernel: its result is the transpose of what it fills.
  const std::vector<int64_t> strides{1, std::max<int64_t>(input.numel(), 1)};
  return {at::Tensor(at::detail::empty_strided_meta({input.numel(), input.dim()}, strides, c10::kLong))};
}

// Results become dry tensors, but for those that are arguments.
void finish(const Call& call, const std::vector<int>& aliases, Stack& stack, Stack results) {
  const auto dry = [&](const at::Tensor& like) {
    const auto bytes = like.storage().nbytes();
    return twin(like, bytes, dry_data(call.run, bytes, call.device), dry_allocator());
  };
  for (size_t at = 0; at < results.size(); ++at) {
    if (aliases[at] < 0) {
      results[at] = mapped(results[at], dry);
      continue;
    }
    const auto& argument = call.arguments[static_cast<size_t>(aliases[at])];
    if (results[at].isTensor() && argument.toTensor().sizes() != results[at].toTensor().sizes()) {
      at::_ops::resize_::call(argument.toTensor(), c10::fromIntArrayRefSlow(results[at].toTensor().sizes()), {});
    }
    results[at] = argument;
  }
  torch::jit::drop(stack, call.arguments.size());
  stack.insert(stack.end(), results.begin(), results.end());
}

void run(const Call& call, Stack& stack) {
  const auto& [registered, rule, aliases] = known(call.op);
  // Lives until the results are made.
  c10::DataPtr scratch;
  if (rule.shapes != nullptr && (rule.is_all || call.run->by_shapes || !call.device.is_cpu())) {
    const Undisturbed undisturbed;
    return finish(call, aliases, stack, rule.shapes(mapped(call.arguments, meta_of)));
  }
  const auto what = registered > Case::composite && is_composite(call.op, call.device) ? Case::composite : registered;
  switch (what) {
    case Case::answer:
      return finish(call, aliases, stack, answer(call));
    case Case::largest:
      return finish(call, aliases, stack, largest(call));
    case Case::reshape:
      if (!call.is_dry(call.arguments[0].toTensor())) {
        call.refuse("would change the shape of a tensor from outside of the body");
      }
      return call.below(stack);
    case Case::metadata:
    case Case::composite:
      return call.below(stack);
    case Case::in_place:
      for (size_t at = 0; at < call.arguments.size(); ++at) {
        if (is_written(call.op.schema().arguments()[at])) {
          each_tensor(call.arguments[at], [&](const at::Tensor& tensor) { hold(call, tensor); });
        }
      }
      return finish(call, aliases, stack, Stack(aliases.size()));
    case Case::meta:
      return finish(call, aliases, stack, by_meta(call, scratch));
    case Case::kernel:
      return finish(call, aliases, stack, ask_kernel(call, scratch));
    case Case::refused:
      call.refuse("no rule says what it makes");
  }
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto count = static_cast<int64_t>(op.schema().arguments().size());
  Call call{dry_run_of_thread(), op, keys, Stack(stack->end() - count, stack->end()), c10::kCPU};
  for (const auto& argument : call.arguments) {
    if (argument.isDevice()) {
      call.device = argument.toDevice();
    }
    each_tensor(argument, [&](const at::Tensor& tensor) {
      look_at(call, tensor);
      call.device = tensor.is_cpu() ? call.device : tensor.device();
    });
  }
  run(call, *stack);
}

}  // namespace
}  // namespace toma

struct toma_dry {
  std::shared_ptr<toma::Dry> run = std::make_shared<toma::Dry>();
};

int32_t toma_dry_begin(bool by_shapes, toma_dry** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    // For a key that no thread includes yet: the tables of operators are read without a lock.
    [[gnu::used]] static const auto* registered = new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerFallback(
        toma::fake, c10::KernelFunction::makeFromBoxedFunction<&toma::fallback>(), "toma: dry runs"));
    auto handle = std::make_unique<toma_dry>();
    handle->run->by_shapes = by_shapes;
    toma::State::enter(handle->run);
    c10::impl::tls_set_dispatch_key_included(toma::fake, true);
    *out = handle.release();
  });
}

void toma_dry_end(toma_dry* handle, toma_dry_outcome* out) noexcept {
  const std::unique_ptr<toma_dry> ended(handle);
  auto& run = *ended->run;
  c10::impl::tls_set_dispatch_key_included(toma::fake, false);
  for (auto& [tensor, before] : run.held) {
    toma::put_back(before);
  }
  run.held.clear();
  toma::State::leave(run);
  const std::lock_guard<std::mutex> held(run.lock);
  *out = {};
  for (const auto* block : run.living) {
    ++out->kept;
    out->kept_bytes += block->bytes;
    std::strncpy(out->kept_operator, block->made_by, sizeof out->kept_operator - 1);
  }
  run.unknown.copy(out->unknown, sizeof out->unknown - 1);
  run.refused.copy(out->refused, sizeof out->refused - 1);
}
