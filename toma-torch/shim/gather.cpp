// Taking rows of an evicted table from the host, without fetching the table.
//
// # Why
//
// The operator itself runs, on a table whose memory is the evicted bytes. For bytes in a file, this memory is a range
// of addresses into which only the requested rows are read. So results and errors are the kernel's own.

#include "gather.h"

#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "guard.h"

namespace toma {
namespace {

using torch::jit::Stack;

// Indices of `embedding`, of `index_select` in its first dim, or the only ones of `index`.
at::Tensor rows_in(const Stack& stack, size_t count) {
  const auto& second = torch::jit::peek(stack, 1, count);
  if (second.isInt()) {
    return second.toInt() == 0 ? torch::jit::peek(stack, 2, count).toTensor() : at::Tensor();
  }
  if (second.isTensor()) {
    return second.toTensor();
  }
  const auto indices = second.toListRef();
  return indices.size() == 1 && indices[0].isTensor() ? indices[0].toTensor() : at::Tensor();
}

// True if the bytes of the tensor define it completely.
bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_nested() && tensor.has_storage() && !tensor.is_quantized() &&
      !tensor.is_conj() && !tensor.is_neg() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

bool wants_gradient(const at::Tensor& tensor) {
  return (c10::GradMode::is_enabled() && tensor.requires_grad()) || tensor._fw_grad(0).defined();
}

// A range of addresses as long as the table. Pages that are not written take no memory.
class Addresses {
 public:
  explicit Addresses(size_t bytes) : bytes(bytes) {
    constexpr auto flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (data == MAP_FAILED) {
      throw c10::OutOfMemoryError(c10::str("host out of memory: no addresses for a table of ", bytes, " bytes"), nullptr);
    }
  }
  ~Addresses() { ::munmap(data, bytes); }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  void* data;

 private:
  size_t bytes;
};

// Offsets of the requested rows, without duplicates. The operator itself rejects rows that do not exist.
template <class Index>
std::vector<uint64_t> offsets_in(const at::Tensor& table, const at::Tensor& rows) {
  std::vector<uint64_t> offsets;
  const auto* indices = rows.const_data_ptr<Index>();
  for (int64_t at = 0; at < rows.numel(); ++at) {
    const auto row = static_cast<int64_t>(indices[at]) + (indices[at] < 0 ? table.size(0) : 0);
    if (0 <= row && row < table.size(0)) {
      offsets.push_back(static_cast<uint64_t>((table.storage_offset() + row * table.stride(0)) * table.itemsize()));
    }
  }
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  return offsets;
}

void read_rows(const at::Tensor& table, const at::Tensor& rows, const toma_offloading& callbacks, const void* host_copy, void* to) {
  const Exempt exempt;
  const auto dense = rows.contiguous();
  const auto offsets = rows.scalar_type() == c10::kLong ? offsets_in<int64_t>(table, dense) : offsets_in<int32_t>(table, dense);
  int64_t last = 0;
  for (int64_t dim = 1; dim < table.dim(); ++dim) {
    last += (table.size(dim) - 1) * table.stride(dim);
  }
  toma_error error{};
  const auto bytes = static_cast<uint64_t>(last + 1) * table.itemsize();
  const auto code = callbacks.read(host_copy, offsets.data(), offsets.size(), bytes, static_cast<uint8_t*>(to), table.storage().nbytes(), &error);
  if (code != TOMA_OK) {
    throw_error(code, error);
  }
}

}  // namespace

std::optional<Gather> Gather::of(const Operator& operation, const Stack& stack) {
  if (!operation.named.gathers) {
    return std::nullopt;
  }
  const auto count = operation.is_written.size();
  Gather found{torch::jit::peek(stack, 0, count).toTensor(), rows_in(stack, count)};
  const auto &table = found.table, &rows = found.rows;
  if (!is_plain(table) || !is_plain(rows) || table.dim() == 0 || table.numel() == 0 || wants_gradient(table) ||
      storage_of(table) == storage_of(rows) || (rows.scalar_type() != c10::kLong && rows.scalar_type() != c10::kInt)) {
    return std::nullopt;
  }
  const auto moved = rows.numel() * (table.nbytes() / table.size(0)) + rows.nbytes();
  return table.storage().nbytes() > moved ? std::optional(std::move(found)) : std::nullopt;
}

void Gather::run(const c10::OperatorHandle& op, Stack& stack, const toma_offloading& callbacks, const toma_use& use) const {
  const auto host_rows = rows.to(c10::kCPU);
  const void* memory = use.block != nullptr ? use.block : callbacks.memory(use.host_copy);
  std::optional<Addresses> addresses;
  if (memory == nullptr) {
    addresses.emplace(table.storage().nbytes());
    read_rows(table, host_rows, callbacks, use.host_copy, addresses->data);
    memory = addresses->data;
  }
  // No kernel that gathers writes to the table.
  auto* begin = const_cast<char*>(static_cast<const char*>(memory)) + table.storage_offset() * table.itemsize();
  const auto options = at::TensorOptions().dtype(table.dtype()).device(c10::kCPU);
  const auto host_table = at::for_blob(begin, table.sizes()).strides(table.strides()).options(options).make_tensor();
  const auto count = op.schema().arguments().size();
  for (size_t at = 0; at < count; ++at) {
    auto& argument = torch::jit::peek(stack, at, count);
    if (at == 0) {
      argument = host_table;
    } else if (argument.isTensor()) {
      argument = host_rows;
    } else if (argument.isList()) {
      argument = c10::List<std::optional<at::Tensor>>({host_rows});
    }
  }
  {
    // The observer has already reported this operator.
    const at::DisableRecordFunctionGuard not_again;
    op.callBoxed(&stack);
  }
  auto& result = torch::jit::peek(stack, 0, 1);
  result = result.toTensor().to(table.device());
}

}  // namespace toma
