// Views of a card's tensor as a tensor of the CPU, and the return of results to the card.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

using Stack = torch::jit::Stack;
using c10::IValue;

inline at::Tensor host_view(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.layout() != at::kStrided) return tensor;
  // Holds the storage while the view of its bytes lives.
  auto* held = new c10::Storage(tensor.storage());
  c10::DataPtr bytes(held->mutable_data(), held, [](void* held) { delete static_cast<c10::Storage*>(held); }, at::kCPU);
  c10::Storage storage(c10::Storage::use_byte_size_t(), held->nbytes(), std::move(bytes), nullptr, false);
  auto same = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  same.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  same._set_conj(tensor.is_conj());
  same._set_neg(tensor.is_neg());
  return same;
}

// Converts an argument of an operator for the CPU's kernel; `generator` is the one that it draws from.
inline IValue on_cpu(const IValue& value, const c10::Type& type, const at::Generator& generator) {
  using c10::TypeKind;
  const bool is_optional = type.kind() == TypeKind::OptionalType;
  const auto& inner = is_optional ? *type.castRaw<c10::OptionalType>()->getElementType() : type;
  if (inner.kind() == TypeKind::GeneratorType) return generator;
  if (value.isTensor()) return host_view(value.toTensor());
  if (value.isDevice()) return value.toDevice().is_cuda() ? IValue(at::Device(at::kCPU)) : value;
  if (!value.isList() || inner.kind() != TypeKind::ListType) return value;
  const auto element = inner.castRaw<c10::ListType>()->getElementType();
  if (element->kind() == TypeKind::TensorType) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(host_view(tensor));
    return list;
  }
  if (element->kind() != TypeKind::OptionalType) return value;
  c10::List<std::optional<at::Tensor>> list;
  for (const IValue& item : value.toListRef())
    list.push_back(item.isTensor() ? std::optional(host_view(item.toTensor())) : std::nullopt);
  return list;
}

inline std::vector<at::Tensor> tensors_of(const IValue& value) {
  std::vector<at::Tensor> tensors;
  if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
  for (size_t i = 0; value.isList() && i < value.toListRef().size(); i++)
    if (const auto& item = value.toListRef()[i]; item.isTensor() && item.toTensor().defined()) tensors.push_back(item.toTensor());
  return tensors;
}

// Writes the CPU's result into the card's, unless both are the same memory.
inline void give(const at::Tensor& card, const at::Tensor& cpu) {
  TORCH_CHECK(card.sizes() == cpu.sizes(), "a result has the shape ", cpu.sizes(), ", on the card ", card.sizes());
  const auto to = host_view(card);
  if (to.data_ptr() != cpu.data_ptr()) to.copy_(cpu);
}

// Makes a new tensor of the card with the CPU's values.
inline at::Tensor brought(const at::Tensor& cpu, at::Device card) {
  const auto tensor = at::empty_strided(cpu.sizes(), cpu.strides(), cpu.options().device(card));
  host_view(tensor).copy_(cpu);
  return tensor;
}
