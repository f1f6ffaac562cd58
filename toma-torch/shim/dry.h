// Tensors without memory, and what one dry run knows.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "state.h"

namespace toma {

using Stack = torch::jit::Stack;

// Addresses that nothing stands behind until they are written to.
class Region {
 public:
  Region();
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Those of the next block; begins anew at the end, where blocks from the beginning are dead or hold zeros.
  void* take(uint64_t bytes);
  static void forget(void* data, uint64_t bytes) noexcept;

 private:
  char* base;
  uint64_t size;
  uint64_t next = 0;
};

// The memory of a dry tensor. It knows its run, which lives until the last of them is gone.
struct DryBlock {
  std::shared_ptr<class Dry> run;
  void* data;
  uint64_t bytes;
  const char* made_by;
};

class Dry final : public Entry, public std::enable_shared_from_this<Dry> {
 public:
  bool is_wall() const override { return true; }

  // Takes the place of the kernel of a device.
  void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack);
  c10::DataPtr block(uint64_t bytes, c10::Device device);
  void died(DryBlock* block) noexcept;
  // Puts back what the run has changed above the kernels: handles of gradients, and counts of versions.
  void put_back() noexcept;

  std::shared_ptr<State> state;
  // Kernels are not asked where a rule knows the shapes of results.
  bool by_shapes = false;
  // Guards what follows: blocks may die on any thread.
  std::mutex lock;
  std::unordered_set<const DryBlock*> living;
  std::string refused;
  std::set<std::string> unknown;

 private:
  // A tensor of the user's that autograd may change.
  struct Held {
    at::Tensor tensor;
    at::Tensor gradient;
    uint32_t version;
  };

  bool is_dry(const at::Tensor& tensor) const;
  void hold(const at::Tensor& tensor);
  void look_at(const c10::OperatorHandle& op, const at::Tensor& tensor);
  at::Tensor dry_tensor(const at::Tensor& like, c10::Device device, std::unordered_map<const void*, c10::Storage>& storages);
  c10::IValue dry_result(const c10::IValue& result, c10::Device device, std::unordered_map<const void*, c10::Storage>& storages);
  void make(Stack& stack, size_t arguments, const at::Tensor& like, c10::Device device);
  void tell(const c10::OperatorHandle& op);
  void make_new(const c10::OperatorHandle& op, const Stack& arguments, Stack& stack);
  void ask_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, const std::vector<int>& aliases, Stack& stack);
  void write_nothing(const c10::OperatorHandle& op, const std::vector<int>& aliases, Stack& stack);
  void answer(const c10::OperatorHandle& op, Stack& stack);
  void largest(const c10::OperatorHandle& op, Stack& stack);
  void reshape(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack);
  void finish(const c10::OperatorHandle& op, const std::vector<int>& aliases, Stack& stack, const Stack& results);
  void resize(const c10::OperatorHandle& op, const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);
  [[noreturn]] void refuse(const c10::OperatorHandle& op, const std::string& why);

  Region region;
  std::unordered_map<const c10::TensorImpl*, Held> held_tensors;
};

}  // namespace toma
