// Tensors that autograd saves while a region records or a stage is recomputed: libtorch asks its engine for hooks.

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <typeinfo>
#include <utility>

#include "guard.h"
#include "offload.h"
#include "replay.h"
#include "tape.h"

namespace toma {
namespace {

using torch::autograd::SavedVariableHooks;

// Hook of a first run: the slot holds the tensor if the plan saves it, and backward reads it from there.
struct Hook final : SavedVariableHooks {
  explicit Hook(std::shared_ptr<Tape> tape) : tape(std::move(tape)) {}
  ~Hook() override {
    if (slot != none) {
      tape->forget(slot);
    }
  }
  void call_pack_hook(const at::Tensor& tensor) override { slot = tape->pack(tensor); }
  at::Tensor call_unpack_hook() override { return tape->unpack(slot); }

  std::shared_ptr<Tape> tape;
  uint32_t slot = none;
};

// Hook of a recomputation, whose own graph is never run.
struct Caught final : SavedVariableHooks {
  void call_pack_hook(const at::Tensor& tensor) override {
    if (auto* replay = Replay::running()) {
      replay->pack(tensor);
    }
  }
  at::Tensor call_unpack_hook() override { fail("the graph of a recomputation has no backward"); }
};

struct Engine final : torch::autograd::Engine {
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (Replay::running() != nullptr) {
      return std::make_unique<Caught>();
    }
    // Tensors that a backward inside a region saves are its own. libtorch holds tensors saved between two operators, as
    // by TorchScript for a compiled part of a graph, because no recomputation of operators saves them again.
    if (records() && is_recorded() && BelowTape::depth() > 0) {
      return std::make_unique<Hook>(*recording());
    }
    return nullptr;
  }
};

// Never destroyed: its threads may run while the process ends.
torch::autograd::Engine& engine() {
  static auto* engine = new Engine;
  return *engine;
}

}  // namespace

bool is_recorded() { return torch::autograd::get_current_graph_task_id() == -1; }

void when_backward_ends(std::function<void()> callback) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
}

bool engine_is_ours() { return &torch::autograd::Engine::get_default_engine() == &engine(); }

}  // namespace toma

void toma_region_install() noexcept {
  const auto& engine = torch::autograd::Engine::get_default_engine();
  // Python's engine releases its lock, and the engine of another copy of this shim records for that copy, so both stay.
  if (typeid(engine) == typeid(torch::autograd::Engine)) {
    torch::autograd::set_default_engine_stub(&toma::engine);
  }
}
