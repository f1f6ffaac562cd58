//! One direction of transfers to or from a device, on a thread of its own.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;

use toma_core::private::contained;

/// Moves storages of a manager `M` one after the other, while operators run.
#[derive(Debug)]
pub(crate) struct Link<M> {
    name: &'static str,
    moves: fn(&M, u64),
    queue: Mutex<Option<Sender<u64>>>,
    waiting: Arc<(Mutex<usize>, Condvar)>,
}

impl<M: Send + Sync + 'static> Link<M> {
    pub(crate) fn new(name: &'static str, moves: fn(&M, u64)) -> Self {
        Self { name, moves, queue: Mutex::default(), waiting: Arc::default() }
    }

    /// Queues a storage to be moved. Moves it at once if no thread can be started.
    pub(crate) fn push(&self, shared: &Arc<M>, id: u64) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_none() {
            *queue = self.spawned(shared);
        }
        *self.waiting() += 1;
        if queue.as_ref().is_none_or(|queue| queue.send(id).is_err()) {
            *self.waiting() -= 1;
            drop(queue);
            (self.moves)(shared, id);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, usize> {
        self.waiting.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawned(&self, shared: &Arc<M>) -> Option<Sender<u64>> {
        let (queue, ids) = channel();
        let (shared, waiting, moves): (Weak<M>, _, _) =
            (Arc::downgrade(shared), Arc::clone(&self.waiting), self.moves);
        let work = move || {
            for id in ids {
                if let Some(shared) = shared.upgrade() {
                    contained(|| moves(&shared, id));
                }
                *waiting.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                waiting.1.notify_all();
            }
        };
        thread::Builder::new().name(self.name.to_owned()).spawn(work).ok().map(|_| queue)
    }

    /// Waits until one more storage is moved. Returns false if none is queued.
    pub(crate) fn wait_for_a_move(&self) -> bool {
        if thread::current().name() == Some(self.name) {
            // An observer on this very thread requests room: waiting for itself would never end.
            return false;
        }
        let waiting = self.waiting();
        if *waiting == 0 {
            return false;
        }
        drop(self.waiting.1.wait(waiting).unwrap_or_else(PoisonError::into_inner));
        true
    }
}
