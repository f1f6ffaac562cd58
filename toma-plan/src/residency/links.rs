//! Times of operators and transfers, with one link in each direction.

use std::collections::VecDeque;

use super::Terms;

/// Times at which operators, fetches and copies to the host begin and end.
///
/// Each link carries one storage at a time, in the order of the requests. The memory of an evicted storage is free when
/// its copy has ended. A fetched storage takes its memory before the fetch starts.
#[derive(Clone, Debug)]
pub(super) struct Links {
    terms: Terms,
    pub(super) now: f64,
    pub(super) stalled: f64,
    in_free: f64,
    out_free: f64,
    /// Storages on the way to the host: the end of each copy, and its bytes.
    leaving: VecDeque<(f64, u64)>,
    leaving_bytes: u64,
    /// Time at which the last copy or fetch of each storage ends.
    ready: Vec<f64>,
}

impl Links {
    pub(super) fn new(terms: Terms, storages: usize) -> Self {
        Self {
            terms,
            now: 0.0,
            stalled: 0.0,
            in_free: 0.0,
            out_free: 0.0,
            leaving: VecDeque::new(),
            leaving_bytes: 0,
            ready: vec![0.0; storages],
        }
    }

    /// Starts to copy a storage out now, because its host copy was not valid.
    pub(super) fn copy_out(&mut self, storage: usize, bytes: u64) {
        let start = self.now.max(self.out_free).max(self.ready[storage]);
        let end = start + seconds(bytes, self.terms.out_bytes_per_second);
        (self.out_free, self.ready[storage]) = (end, end);
        if end > self.now {
            self.leaving.push_back((end, bytes));
            self.leaving_bytes += bytes;
        }
    }

    /// Requests a storage, with which `taken_bytes` are in use on the device.
    pub(super) fn fetch(&mut self, storage: usize, bytes: u64, taken_bytes: u64) {
        let room = self.room(taken_bytes);
        let start = self.now.max(self.in_free).max(self.ready[storage]).max(room);
        let end = start + seconds(bytes, self.terms.in_bytes_per_second);
        (self.in_free, self.ready[storage]) = (end, end);
    }

    /// Runs an operator once its arguments have arrived and the bytes that it takes are free.
    pub(super) fn run(&mut self, uses: impl Iterator<Item = usize>, taken_bytes: u64, seconds: f64) {
        let room = self.room(taken_bytes);
        let start = uses.fold(self.now.max(room), |start, storage| start.max(self.ready[storage]));
        self.stalled += start - self.now;
        self.now = start + seconds;
    }

    /// Marks a storage as made on the device, so nothing has to wait for it.
    pub(super) fn made(&mut self, storage: usize) {
        self.ready[storage] = 0.0;
    }

    /// Returns the time from which copies on their way out leave room for so many bytes.
    fn room(&mut self, taken_bytes: u64) -> f64 {
        while let Some(&(_, bytes)) = self.leaving.front().filter(|(end, _)| *end <= self.now) {
            self.leaving.pop_front();
            self.leaving_bytes -= bytes;
        }
        let mut left = self.leaving_bytes;
        let mut room = self.now;
        for &(end, bytes) in &self.leaving {
            if taken_bytes.saturating_add(left) <= self.terms.budget_bytes {
                break;
            }
            left -= bytes;
            room = end;
        }
        room
    }
}

fn seconds(bytes: u64, bytes_per_second: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a time to 15 digits")]
    let bytes = bytes as f64;
    bytes / bytes_per_second
}
