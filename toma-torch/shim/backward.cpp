// Leftovers of a backward: gradients of one that failed, and references held by one on a device.
//
// # Why
//
// A tiny backward of ours would also clear the queue of the thread. It would take microseconds, and start libtorch's
// threads for GPUs in programs that never train.
//
// On a device a thread of libtorch runs the graph. It notifies the caller that the graph is done before it releases the
// graph, its gradients and its last tensors. When a graph of one node has run on it after that, they are released.

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <memory>

#include "guard.h"
#include "shim.h"

namespace {

// The engine lets derived classes set the queue of a thread.
struct Engine : torch::autograd::Engine {
  static void give_queue(std::shared_ptr<torch::autograd::ReadyQueue> queue) {
    const auto give = &Engine::init_local_ready_queue;
    (torch::autograd::Engine::get_default_engine().*give)(std::move(queue));
  }
};

struct Nothing : torch::autograd::Node {
  explicit Nothing(const at::Tensor& input) { add_input_metadata(input); }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

}  // namespace

int32_t toma_backward_wait(const void* loss, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto input = static_cast<const at::Tensor*>(loss)->detach();
    const torch::autograd::edge_list roots = {{std::make_shared<Nothing>(input), 0}};
    torch::autograd::Engine::get_default_engine().execute(roots, {input}, false, false, true);
  });
}

// A backward on the CPU works through a queue of the thread that called it. If a node fails, nodes of other branches
// that were ready stay in the queue with their gradients. A new queue drops them.
void toma_backward_drop_stranded() noexcept {
  constexpr int none = -1;
  // Inside a backward the thread waits for its queue.
  if (torch::autograd::get_current_graph_task_id() != none) {
    return;
  }
  try {
    Engine::give_queue(std::make_shared<torch::autograd::ReadyQueue>());
  } catch (const std::exception&) {
    // Without memory for a queue, the gradients stay until the next failure.
  }
}
