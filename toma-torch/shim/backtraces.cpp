// Backtraces of errors, written only where they will be read.
//
// # Why
//
// Writing a backtrace takes libtorch 6 to 11 ms. The decision is made where the text is read: where an error is raised
// its type is not known yet, and backward raises on the thread of a device. Out of memory that will be retried loses
// its backtrace, all other errors keep it.

#include <c10/util/Backtrace.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <exception>
#include <functional>
#include <memory>

#include "guard.h"
#include "shim.h"

namespace {

thread_local int32_t quiet = 0;

// Set while there is one thread.
bool (*would_retry_out_of_memory)() = nullptr;

// Never destroyed: threads may raise errors while the process ends.
const std::string& nothing() {
  static const auto* empty = new std::string;
  return *empty;
}

// True if the error that this thread handles means out of memory. It may be another error than the one whose text is
// requested, which then lacks a backtrace, because a backtrace does not know its error.
bool handles_out_of_memory() {
  const auto caught = std::current_exception();
  if (caught == nullptr) {
    return false;
  }
  try {
    std::rethrow_exception(caught);
  } catch (const c10::Error& error) {
    return toma::means_out_of_memory(error);
  } catch (...) {
    return false;
  }
}

// A backtrace that is written only if it will be read.
//
// It is made by the constructor of the error's base class, where the type of the error is not known yet. The type is
// known where the text is requested, which is where the error was caught. That is also the thread that receives the
// error, while an error of backward is raised on the thread of a device.
struct Trace final : c10::LazyValue<std::string> {
  explicit Trace(c10::Backtrace written) : written(std::move(written)) {}

  const std::string& get() const override {
    return quiet > 0 || (would_retry_out_of_memory() && handles_out_of_memory()) ? nothing() : written->get();
  }

  c10::Backtrace written;
};

// Replaces libtorch's own fetcher, which is not accessible: it does the same, later.
c10::Backtrace fetch() {
  static const auto* none = new c10::Backtrace(std::make_shared<c10::PrecomputedLazyValue<std::string>>(nothing()));
  return quiet > 0 ? *none : std::make_shared<Trace>(c10::get_lazy_backtrace(/*frames_to_skip=*/1));
}

}  // namespace

void toma_backtraces_install(bool (*would_retry)()) noexcept {
  would_retry_out_of_memory = would_retry;
  c10::SetStackTraceFetcher(std::function<c10::Backtrace()>(fetch));
}

void toma_backtraces_quiet(int32_t change) noexcept { quiet += change; }
