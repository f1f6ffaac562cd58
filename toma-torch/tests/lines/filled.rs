//! What filled the memory, when it ran out.
