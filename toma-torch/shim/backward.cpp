// What a backward that failed leaves behind.
//
// # Why
//
// A tiny backward of ours would also clear the queue. It would cost microseconds, and start libtorch's
// threads for GPUs in programs that never train.

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <memory>

#include "shim.h"

namespace {

// The engine lets derived classes give a thread its queue.
struct Engine : torch::autograd::Engine {
  static void give_queue(std::shared_ptr<torch::autograd::ReadyQueue> queue) {
    const auto give = &Engine::init_local_ready_queue;
    (torch::autograd::Engine::get_default_engine().*give)(std::move(queue));
  }
};

}  // namespace

// A backward on the CPU works through a queue of the thread that called it. When a node fails, nodes of
// other branches that were ready stay in the queue with their gradients. A new queue drops them.
void toma_backward_drop_stranded() noexcept {
  constexpr int none = -1;
  // Inside of a backward the thread waits for its queue.
  if (torch::autograd::get_current_graph_task_id() != none) {
    return;
  }
  try {
    Engine::give_queue(std::make_shared<torch::autograd::ReadyQueue>());
  } catch (const std::exception&) {
    // Without memory for a queue they stay until the next failure.
  }
}
