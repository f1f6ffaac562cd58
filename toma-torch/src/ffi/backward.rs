//! What a backward that failed leaves behind.

// Sound to call from any thread: it changes a queue of the calling one.
unsafe extern "C" {
    /// Drops gradients that backwards of this thread have left in its queue when they failed.
    pub(crate) safe fn toma_backward_drop_stranded();
}
