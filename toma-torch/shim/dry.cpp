// A dry run: below autograd and autocast, and above all kernels, every operator of a thread comes here.
//
// libtorch reserves the dispatch key Fake for code outside of it and has no kernel there. What stands
// above it runs as always: the graph, autocast, the choice of kernels by device. No kernel below it runs
// on data of the user's: what operators make are tensors with shapes, strides and a device, whose
// memory is a range of addresses that nothing stands behind.

#include "dry.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <sstream>

#include "guard.h"
#include "observe.h"
#include "rules.h"

namespace toma {
namespace {

constexpr auto fake = c10::DispatchKey::Fake;

using Storages = std::unordered_map<const void*, c10::Storage>;

// What becomes of an operator. The order is that of the questions in `case_of`.
enum class Case { factory, answer, largest, metadata, reshape, in_place, composite, meta, oracle, refused };

struct Known {
  Case what;
  // Its shapes, where they are asked for instead of the kernel.
  rules::Rule rule;
  // For each result the argument that it is, or -1.
  std::vector<int> aliases;
};

bool holds_tensors(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
      return holds_tensors(*type.containedType(0));
    default:
      return false;
  }
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool has_tag(const c10::OperatorHandle& op, at::Tag tag) {
  const auto& tags = op.getTags();
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

std::vector<int> aliases_of(const c10::FunctionSchema& schema) {
  std::vector<int> aliases;
  for (const auto& result : schema.returns()) {
    aliases.push_back(-1);
    const auto& arguments = schema.arguments();
    for (size_t at = 0; is_written(result) && at < arguments.size(); ++at) {
      if (is_written(arguments[at]) && *arguments[at].alias_info() == *result.alias_info()) {
        aliases.back() = static_cast<int>(at);
      }
    }
  }
  return aliases;
}

bool has_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) { return op.hasKernelForDispatchKey(key); }

// Those that call others, and make nothing themselves. Some are registered as such, and compute.
bool is_composite(const c10::OperatorHandle& op, c10::DispatchKey backend) {
  const auto& name = op.schema().name();
  const auto computes = starts_with(name, "aten::mkldnn_") || name == "aten::convolution_backward";
  return !computes && !has_kernel(op, backend) &&
      (has_kernel(op, c10::DispatchKey::CompositeExplicitAutograd) ||
       has_kernel(op, c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
       has_kernel(op, c10::DispatchKey::CompositeImplicitAutograd));
}

bool has_cpu_kernel(const c10::OperatorHandle& op) {
  return has_kernel(op, c10::DispatchKey::CPU) || has_kernel(op, c10::DispatchKey::CompositeExplicitAutograd);
}

Case case_of(const c10::OperatorHandle& op, const std::vector<int>& aliases, c10::DispatchKey backend) {
  const auto name = c10::toString(op.operator_name());
  const auto& schema = op.schema();
  if (name == "aten::empty.memory_format" || name == "aten::empty_strided" || name == "aten::zeros") {
    return Case::factory;
  }
  if (has_tag(op, at::Tag::data_dependent_output)) {
    return Case::answer;
  }
  if (has_tag(op, at::Tag::dynamic_output_shape) && name != "aten::index.Tensor") {
    return Case::largest;
  }
  const auto makes_tensors = std::any_of(schema.returns().begin(), schema.returns().end(), [](const auto& result) {
    return holds_tensors(*result.type()) && (result.alias_info() == nullptr || result.alias_info()->isWrite());
  });
  const auto writes = std::any_of(schema.arguments().begin(), schema.arguments().end(), is_written);
  if (!writes && !makes_tensors) {
    return Case::metadata;
  }
  if (has_tag(op, at::Tag::inplace_view) || starts_with(name, "aten::set_.") || name == "aten::resize_") {
    return Case::reshape;
  }
  const auto has_out = std::any_of(
      schema.arguments().begin(), schema.arguments().end(), [](const auto& argument) { return argument.is_out(); });
  if (writes && !has_out && std::find(aliases.begin(), aliases.end(), -1) == aliases.end()) {
    return Case::in_place;
  }
  if (is_composite(op, backend)) {
    return Case::composite;
  }
  if (has_kernel(op, c10::DispatchKey::Meta)) {
    return Case::meta;
  }
  return has_cpu_kernel(op) && schema.getNamespace() == "aten" ? Case::oracle : Case::refused;
}

// Kept by schema: those of operators live as long as the program.
const Known& known(const c10::OperatorHandle& op, c10::Device device) {
  static std::mutex lock;
  static auto& table = *new std::map<std::pair<const c10::FunctionSchema*, c10::DispatchKey>, std::unique_ptr<Known>>;
  const auto backend = c10::computeDispatchKey(c10::kFloat, c10::kStrided, device);
  const std::lock_guard<std::mutex> held(lock);
  auto& entry = table[{&op.schema(), backend}];
  if (entry == nullptr) {
    auto aliases = aliases_of(op.schema());
    const auto what = case_of(op, aliases, backend);
    entry = std::make_unique<Known>(Known{what, rules::of(op.schema().name()), std::move(aliases)});
  }
  return *entry;
}

c10::DispatchKeySet below(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, fake);
}

// Kernels of our own asking: no graph, and no coming back here.
struct Undisturbed {
  c10::impl::ExcludeDispatchKeyGuard not_fake{fake};
  at::AutoDispatchBelowADInplaceOrView below_autograd;
};

// A tensor over other memory that looks the same.
at::Tensor twin(const at::Tensor& like, c10::Storage storage, c10::Device device, int64_t offset) {
  const auto keys = c10::DispatchKeySet(c10::computeDispatchKey(like.scalar_type(), c10::kStrided, device));
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides());
  impl->set_storage_offset(offset);
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return made;
}

c10::Storage storage_of(c10::DataPtr data, uint64_t bytes, c10::Allocator* allocator) {
  return c10::Storage(c10::Storage::use_byte_size_t(), static_cast<int64_t>(bytes), std::move(data), allocator, true);
}

uint64_t bytes_of(const at::Tensor& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
}

at::Tensor meta_of(const at::Tensor& like) {
  auto* allocator = c10::GetAllocator(c10::kMeta);
  const auto bytes = bytes_of(like);
  return twin(like, storage_of(allocator->allocate(bytes), bytes, allocator), c10::kMeta, 0);
}

at::Tensor zeros_of(const at::Tensor& like) {
  auto* allocator = c10::GetCPUAllocator();
  const auto bytes = bytes_of(like);
  auto data = allocator->allocate(bytes);
  std::memset(data.get(), 0, bytes);
  return twin(like, storage_of(std::move(data), bytes, allocator), c10::kCPU, 0);
}

// With each tensor in it replaced.
template <class F>
c10::IValue mapped(const c10::IValue& value, const F& replace) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    return tensor.defined() ? replace(tensor) : tensor;
  }
  if (!value.isList() || !holds_tensors(*value.toList().elementType())) {
    return value;
  }
  auto list = value.toList().copy();
  for (size_t at = 0; at < list.size(); ++at) {
    list.set(at, mapped(list.get(at), replace));
  }
  return list;
}

Stack arguments_of(const c10::OperatorHandle& op, const Stack& stack) {
  const auto count = static_cast<int64_t>(op.schema().arguments().size());
  return Stack(stack.end() - count, stack.end());
}

template <class F>
Stack mapped(const Stack& stack, const F& replace) {
  Stack replaced;
  for (const auto& value : stack) {
    replaced.push_back(mapped(value, replace));
  }
  return replaced;
}

// Where an operator makes its results: on the accelerator, if one of its tensors is there.
c10::Device device_of(const Stack& arguments) {
  auto device = c10::Device(c10::kCPU);
  for (const auto& argument : arguments) {
    each_tensor(argument, [&](const at::Tensor& tensor) { device = tensor.is_cpu() ? device : tensor.device(); });
  }
  return device;
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
      indices.push_back(at::Tensor(at::detail::empty_meta({index->numel()}, c10::kLong)));
    }
    if (!is_mask) {
      indices.push_back(index);
    }
  }
  arguments[1] = indices;
  return arguments;
}

// What a kernel made of zeros, and how much it took meanwhile beyond its results.
struct Told {
  Stack results;
  uint64_t scratch_bytes;
};

std::string question(const c10::OperatorHandle& op, const Stack& arguments) {
  std::ostringstream text;
  text << op.operator_name();
  for (const auto& argument : arguments) {
    const auto shape = [&](const at::Tensor& tensor) {
      text << '|' << tensor.scalar_type() << tensor.sizes() << tensor.strides();
      return at::Tensor();
    };
    text << ';' << mapped(argument, shape);
  }
  return text.str();
}

// The state of the default generator. A kernel of our asking draws from it and is the only one to do so
// meanwhile, so that no other dry run takes what it has drawn for the state to put back.
struct Random {
  Random() {
    const Exempt exempt;
    const std::lock_guard<std::mutex> held(generator().mutex_);
    state = generator().get_state();
  }

  void put_back() const {
    const Exempt exempt;
    const std::lock_guard<std::mutex> held(generator().mutex_);
    generator().set_state(*state);
  }

  static c10::GeneratorImpl& generator() {
    return *at::globalContext().defaultGenerator(c10::Device(c10::kCPU)).unsafeGetGeneratorImpl();
  }

  inline static std::mutex drawing;
  c10::intrusive_ptr<c10::TensorImpl> state;
};

void call_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack) {
  if (!has_tag(op, at::Tag::nondeterministic_seeded)) {
    return op.redispatchBoxed(below(keys), &stack);
  }
  const std::lock_guard<std::mutex> held(Random::drawing);
  struct Drawn {
    ~Drawn() { before.put_back(); }
    Random before;
  } const drawn;
  op.redispatchBoxed(below(keys), &stack);
}

Told compute(const c10::OperatorHandle& op, c10::DispatchKeySet keys, const Stack& arguments) {
  auto stack = mapped(arguments, zeros_of);
  const Unobserved kernel;
  call_kernel(op, keys, stack);
  uint64_t bytes = 0;
  Storages metas;
  const auto results = mapped(stack, [&](const at::Tensor& result) {
    TORCH_CHECK(result.layout() == c10::kStrided, "makes a tensor of layout ", result.layout());
    auto& meta = metas[result.storage().unsafeGetStorageImpl()];
    if (!meta) {
      auto* allocator = c10::GetAllocator(c10::kMeta);
      const auto size = result.storage().nbytes();
      bytes += size;
      meta = storage_of(allocator->allocate(size), size, allocator);
    }
    return twin(result, meta, c10::kMeta, result.storage_offset());
  });
  return {results, static_cast<uint64_t>(std::max<int64_t>(kernel.peak - static_cast<int64_t>(bytes), 0))};
}

// The answer of the kernel itself, asked once for each shape.
Told oracle(const c10::OperatorHandle& op, c10::DispatchKeySet keys, const Stack& arguments) {
  static std::mutex lock;
  static auto& answers = *new std::unordered_map<std::string, Told>;
  constexpr size_t most = 4096;
  const auto asked = question(op, arguments);
  {
    const std::lock_guard<std::mutex> held(lock);
    if (const auto found = answers.find(asked); found != answers.end()) {
      return found->second;
    }
  }
  auto told = compute(op, keys, arguments);
  const std::lock_guard<std::mutex> held(lock);
  if (answers.size() >= most) {
    answers.clear();
  }
  return answers[asked] = told;
}

void release(void* context) {
  const std::unique_ptr<DryBlock> block(static_cast<DryBlock*>(context));
  block->run->died(block.get());
}

std::shared_ptr<Dry> of_thread() {
  std::shared_ptr<Dry> run;
  if (const auto* state = State::current()) {
    state->each<Dry>([&](const auto& dry) { run = dry; });
  }
  return run;
}

// For libtorch's own code that gives a dry tensor other memory.
struct DryAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const auto run = of_thread();
    TORCH_CHECK(run != nullptr, "a tensor of a dry run was kept, and is given memory after it");
    return run->block(bytes, c10::kCPU);
  }

  void copy_data(void*, const void*, size_t) const override {}
};

DryAllocator allocator;

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto run = of_thread();
  TORCH_CHECK(run != nullptr, "dry run: it was taken off this thread");
  run->run(op, keys, *stack);
}

}  // namespace

Region::Region() {
  // As large as the system allows: a limit of the address space allows less.
  for (size = uint64_t{1} << 40; size >= uint64_t{1} << 30; size >>= 1) {
    auto* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped != MAP_FAILED) {
      base = static_cast<char*>(mapped);
      return;
    }
  }
  throw c10::OutOfMemoryError("dry run: the system reserves no addresses for it", nullptr);
}

Region::~Region() { ::munmap(base, size); }

void* Region::take(uint64_t bytes) {
  constexpr uint64_t line = 64;
  const auto rounded = (bytes + line - 1) / line * line;
  if (rounded > size || rounded < bytes) {
    throw c10::OutOfMemoryError("dry run: a tensor of " + std::to_string(bytes) + " bytes is larger than all addresses", nullptr);
  }
  next = next > size - rounded ? 0 : next;
  auto* data = base + next;
  next += rounded;
  return data;
}

// Host code may have written to it. Only whole pages are given back.
void Region::forget(void* data, uint64_t bytes) noexcept {
  constexpr uintptr_t page = 4096;
  const auto from = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const auto to = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (from < to) {
    ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
  }
}

void Dry::refuse(const c10::OperatorHandle& op, const std::string& why) {
  const auto text = c10::toString(op.operator_name()) + ": " + why;
  const std::lock_guard<std::mutex> held(lock);
  if (refused.empty()) {
    refused = text;
  }
  throw c10::NotImplementedError("dry run: " + text, nullptr);
}

c10::DataPtr Dry::block(uint64_t bytes, c10::Device device) {
  auto block = std::make_unique<DryBlock>();
  *block = {shared_from_this(), nullptr, bytes, leaf_name()};
  const std::lock_guard<std::mutex> held(lock);
  block->data = bytes == 0 ? nullptr : region.take(bytes);
  living.insert(block.get());
  if (bytes > 0) {
    state->each<Recorder>([&](const auto& recorder) { recorder->born(block->data, bytes, device); });
  }
  auto* data = block->data;
  return {data, block.release(), &release, device};
}

void Dry::died(DryBlock* block) noexcept {
  const std::lock_guard<std::mutex> held(lock);
  living.erase(block);
  if (block->bytes > 0) {
    state->each<Recorder>([&](const auto& recorder) { recorder->died(block->data, block->bytes, c10::kCPU); });
    Region::forget(block->data, block->bytes);
  }
}

bool Dry::is_dry(const at::Tensor& tensor) const {
  const auto& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return data.get_deleter() == &release && static_cast<DryBlock*>(data.get_context())->run.get() == this;
}

void Dry::hold(const at::Tensor& tensor) {
  if (is_dry(tensor) || tensor.is_inference()) {
    return;
  }
  const std::lock_guard<std::mutex> held(lock);
  const auto [entry, is_new] = held_tensors.try_emplace(tensor.unsafeGetTensorImpl());
  if (is_new) {
    const auto has_gradient = tensor.requires_grad() && tensor.is_leaf();
    entry->second = {tensor, has_gradient ? tensor.grad() : at::Tensor(), static_cast<uint32_t>(tensor._version())};
  }
}

// What autograd and its engine will do to a tensor of the user's is taken back at the end; what could not
// be taken back is refused before it is done.
void Dry::look_at(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided) {
    refuse(op, "takes a tensor of layout " + c10::str(tensor.layout()));
  }
  const auto& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  if (data.get_deleter() == &release && !is_dry(tensor)) {
    refuse(op, "takes a tensor that was kept from another dry run");
  }
  if (!tensor.requires_grad() || is_dry(tensor)) {
    return;
  }
  const auto root = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
  if (!root.is_leaf()) {
    refuse(op, "takes a tensor whose gradient leads into a graph from outside of the body");
  }
  hold(root);
}

void Dry::put_back() noexcept {
  for (auto& [impl, before] : held_tensors) {
    if (before.tensor.requires_grad() && before.tensor.is_leaf()) {
      before.tensor.mutable_grad() = before.gradient;
    }
    auto counter = before.tensor.unsafeGetTensorImpl()->version_counter();
    counter.set_version(before.version);
  }
  held_tensors.clear();
}

at::Tensor Dry::dry_tensor(const at::Tensor& like, c10::Device device, Storages& storages) {
  auto& storage = storages[like.storage().unsafeGetStorageImpl()];
  if (!storage) {
    const auto bytes = like.storage().nbytes();
    storage = storage_of(block(bytes, device), bytes, &allocator);
    if (!device.is_cpu()) {
      // A kernel that came past us would poison the device.
      storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
          "a tensor of a dry run has no data");
    }
  }
  return twin(like, storage, device, like.storage_offset());
}

c10::IValue Dry::dry_result(const c10::IValue& result, c10::Device device, Storages& storages) {
  return mapped(result, [&](const at::Tensor& like) { return dry_tensor(like, device, storages); });
}

void Dry::make(Stack& stack, size_t arguments, const at::Tensor& like, c10::Device device) {
  Storages storages;
  auto made = dry_tensor(like, device, storages);
  torch::jit::drop(stack, arguments);
  stack.emplace_back(std::move(made));
}

// Size, perhaps strides, then type, layout, device, pinned, perhaps a format.
void factory(const c10::OperatorHandle& op, const Stack& arguments, at::Tensor& like, c10::Device& device) {
  const auto has_strides = op.schema().name() == "aten::empty_strided";
  const auto* options = arguments.data() + (has_strides ? 2 : 1);
  const auto type = options[0].isNone() ? c10::get_default_dtype_as_scalartype() : options[0].toScalarType();
  const auto sizes = arguments[0].toIntVector();
  if (!options[2].isNone()) {
    device = options[2].toDevice();
  }
  if (has_strides) {
    like = at::detail::empty_strided_meta(sizes, arguments[1].toIntVector(), type);
    return;
  }
  const auto has_format = arguments.size() > 5 && !arguments[5].isNone();
  const auto format = has_format ? std::optional(arguments[5].toMemoryFormat()) : std::nullopt;
  like = at::detail::empty_meta(sizes, type, format);
}

void Dry::make_new(const c10::OperatorHandle& op, const Stack& arguments, Stack& stack) {
  at::Tensor like;
  auto device = c10::Device(c10::kCPU);
  factory(op, arguments, like, device);
  make(stack, arguments.size(), like, device);
}

void Dry::answer(const c10::OperatorHandle& op, Stack& stack) {
  const auto arguments = arguments_of(op, stack);
  torch::jit::drop(stack, arguments.size());
  if (op.schema().name() == "aten::_local_scalar_dense") {
    const auto type = arguments[0].toTensor().scalar_type();
    stack.emplace_back(c10::isFloatingType(type) ? c10::Scalar(1.0) : type == c10::kBool ? c10::Scalar(true) : c10::Scalar(1));
  } else if (op.schema().returns()[0].type()->kind() == c10::TypeKind::BoolType) {
    stack.emplace_back(true);
  } else {
    refuse(op, "depends on data");
  }
  tell(op);
}

void Dry::tell(const c10::OperatorHandle& op) {
  const std::lock_guard<std::mutex> held(lock);
  unknown.insert(c10::toString(op.operator_name()));
}

// As many results as there can be.
void Dry::largest(const c10::OperatorHandle& op, Stack& stack) {
  const auto arguments = arguments_of(op, stack);
  const auto& name = op.schema().name();
  const auto& input = arguments[0].toTensor();
  at::Tensor like;
  if (name == "aten::nonzero") {
    // As the kernel: its result is the transpose of what it fills.
    like = at::detail::empty_strided_meta({input.numel(), input.dim()}, {1, std::max<int64_t>(input.numel(), 1)}, c10::kLong);
  } else if (name == "aten::masked_select") {
    like = at::detail::empty_meta({std::max(input.numel(), arguments[1].toTensor().numel())}, input.scalar_type());
  } else {
    refuse(op, "the shape of its result depends on data");
  }
  make(stack, arguments.size(), like, input.device());
  tell(op);
}

void Dry::resize(const c10::OperatorHandle& op, const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (!is_dry(tensor)) {
    refuse(op, "would change the shape of a tensor from outside of the body");
  }
  auto* impl = tensor.unsafeGetTensorImpl();
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  const auto offset = static_cast<size_t>(tensor.storage_offset());
  const auto bytes = at::detail::computeStorageNbytes(sizes, strides, tensor.itemsize(), offset);
  if (bytes > storage->nbytes()) {
    storage->set_data_ptr_noswap(block(bytes, tensor.device()));
    storage->set_nbytes(bytes);
  }
  impl->set_sizes_and_strides(sizes, strides);
}

// Shapes and strides in place: metadata, but of whose?
void Dry::reshape(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack) {
  const auto arguments = arguments_of(op, stack);
  const auto& tensor = arguments[0].toTensor();
  if (!is_dry(tensor)) {
    refuse(op, "would change the shape of a tensor from outside of the body");
  }
  if (op.schema().name() != "aten::resize_") {
    op.redispatchBoxed(below(keys), &stack);
    return;
  }
  const auto like = at::detail::empty_meta(arguments[1].toIntVector(), tensor.scalar_type());
  resize(op, tensor, like.sizes(), like.strides());
  torch::jit::drop(stack, arguments.size());
  stack.emplace_back(tensor);
}

void Dry::finish(const c10::OperatorHandle& op, const std::vector<int>& aliases, Stack& stack, const Stack& results) {
  const auto arguments = arguments_of(op, stack);
  const auto device = device_of(arguments);
  Storages storages;
  Stack made;
  for (size_t at = 0; at < results.size(); ++at) {
    if (aliases[at] < 0) {
      made.push_back(dry_result(results[at], device, storages));
      continue;
    }
    const auto& argument = arguments[static_cast<size_t>(aliases[at])];
    if (argument.isTensor() && argument.toTensor().sizes() != results[at].toTensor().sizes()) {
      resize(op, argument.toTensor(), results[at].toTensor().sizes(), results[at].toTensor().strides());
    }
    made.push_back(argument);
  }
  torch::jit::drop(stack, arguments.size());
  stack.insert(stack.end(), made.begin(), made.end());
}

// Where a Meta kernel is registered, it says the shape. Some are registered and only throw.
std::optional<Stack> by_meta(const c10::OperatorHandle& op, const Stack& arguments) {
  try {
    const Undisturbed undisturbed;
    auto results = mapped(unmasked(arguments), meta_of);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &results);
    return results;
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  }
}

void Dry::ask_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, const std::vector<int>& aliases, Stack& stack) {
  const auto arguments = arguments_of(op, stack);
  if (!device_of(arguments).is_cpu() || !has_cpu_kernel(op)) {
    refuse(op, "no rule says what it makes");
  }
  Told told;
  try {
    const Exempt exempt;
    const Unobserved unobserved;
    const Undisturbed undisturbed;
    told = oracle(op, keys, arguments);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    refuse(op, error.what_without_backtrace());
  }
  const auto scratch = block(told.scratch_bytes, c10::kCPU);
  finish(op, aliases, stack, told.results);
}

void Dry::write_nothing(const c10::OperatorHandle& op, const std::vector<int>& aliases, Stack& stack) {
  const auto arguments = arguments_of(op, stack);
  for (size_t at = 0; at < arguments.size(); ++at) {
    if (is_written(op.schema().arguments()[at])) {
      each_tensor(arguments[at], [&](const at::Tensor& tensor) { hold(tensor); });
    }
  }
  torch::jit::drop(stack, arguments.size());
  for (const auto alias : aliases) {
    stack.push_back(arguments[static_cast<size_t>(alias)]);
  }
}

void Dry::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack) {
  const auto arguments = arguments_of(op, stack);
  const auto& [what, rule, aliases] = known(op, device_of(arguments));
  for (const auto& argument : arguments) {
    each_tensor(argument, [&](const at::Tensor& tensor) { look_at(op, tensor); });
  }
  if (rule != nullptr && (by_shapes || !device_of(arguments).is_cpu())) {
    const Undisturbed undisturbed;
    return finish(op, aliases, stack, rule(mapped(arguments, meta_of)));
  }
  switch (what) {
    case Case::factory:
      return make_new(op, arguments, stack);
    case Case::answer:
      return answer(op, stack);
    case Case::largest:
      return largest(op, stack);
    case Case::metadata:
    case Case::composite:
      return op.redispatchBoxed(below(keys), &stack);
    case Case::reshape:
      return reshape(op, keys, stack);
    case Case::in_place:
      return write_nothing(op, aliases, stack);
    case Case::meta:
      if (const auto results = by_meta(op, arguments)) {
        return finish(op, aliases, stack, *results);
      }
      [[fallthrough]];
    case Case::oracle:
      return ask_kernel(op, keys, aliases, stack);
    case Case::refused:
      refuse(op, "no rule says what it makes");
  }
}

}  // namespace toma

struct toma_dry {
  std::shared_ptr<toma::Dry> run;
  toma::Random random;
};

int32_t toma_dry_begin(bool by_shapes, toma_dry** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    // For a key that no thread includes yet: the tables of operators are read without a lock.
    static const auto registered = new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerFallback(
        toma::fake, c10::KernelFunction::makeFromBoxedFunction<&toma::fallback>(), "toma: dry runs"));
    static_cast<void>(registered);
    const std::lock_guard<std::mutex> held(toma::Random::drawing);
    auto handle = std::make_unique<toma_dry>();
    handle->run = std::make_shared<toma::Dry>();
    handle->run->by_shapes = by_shapes;
    handle->run->state = toma::State::enter(handle->run);
    c10::impl::tls_set_dispatch_key_included(toma::fake, true);
    *out = handle.release();
  });
}

void toma_dry_end(toma_dry* handle, toma_dry_outcome* out) noexcept {
  const std::unique_ptr<toma_dry> ended(handle);
  auto& run = *ended->run;
  run.put_back();
  c10::impl::tls_set_dispatch_key_included(toma::fake, false);
  toma::State::leave(run.state, &run);
  {
    const std::lock_guard<std::mutex> held(toma::Random::drawing);
    ended->random.put_back();
  }
  *out = {};
  const std::lock_guard<std::mutex> held(run.lock);
  run.refused.copy(out->refused, sizeof out->refused - 1);
  uint64_t most = 0;
  for (const auto* block : run.living) {
    ++out->kept;
    out->kept_bytes += block->bytes;
    if (block->bytes >= most) {
      most = block->bytes;
      std::strncpy(out->kept_operator, block->made_by, sizeof out->kept_operator - 1);
    }
  }
  std::string unknown;
  for (const auto& name : run.unknown) {
    unknown += (unknown.empty() ? "" : ", ") + name;
  }
  unknown.copy(out->unknown, sizeof out->unknown - 1);
}
