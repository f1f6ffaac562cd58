//! What the caches that remember have in common besides the store: looking into it.

/// Gives a cache over a [`Store`](super::store::Store) its constructors and its inspection.
macro_rules! over_store {
    ($cache:ident) => {
        impl $cache {
            /// An empty cache of one's own.
            pub const fn new() -> Self {
                Self { store: Store::new() }
            }

            /// What is remembered now.
            pub fn entries(&self) -> Vec<Entry> {
                self.store.entries()
            }

            /// Forgets everything, seeds too.
            pub fn clear(&self) {
                self.store.clear();
            }

            /// What is known under `key`: for a cache of your own that keeps its evidence here, under
            /// a key of its own.
            pub fn recall_by(&self, key: &Key, place: &Place<'_>) -> Option<Remembered> {
                self.store.recall(place, || *key)
            }

            /// Keeps what a call has learned under `key`.
            pub fn remember_by(&self, key: &Key, place: &Place<'_>, learned: Remembered) {
                self.store.remember(key, place, learned);
            }

            /// Keeps what a call has measured under `key`, for this thread alone.
            pub fn note_by(&self, key: &Key, place: &Place<'_>, measurements: &Measurements) {
                self.store.note(place, || *key, measurements);
            }

            /// Lets calls of this name start at `size` until they learn better, wherever they
            /// come from. Seeds are kept until [`clear`](Self::clear); `entries` does not list them.
            ///
            /// The name is the `name` option, the path of an annotated function, or `file:line` of
            /// an inline form.
            pub fn seed(&self, name: impl Into<String>, size: usize) {
                self.store.seed(name.into(), size);
            }
        }

        impl Default for $cache {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

pub(super) use over_store;
