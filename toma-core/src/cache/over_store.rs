//! Constructors and inspection that all caches over a store share.

/// Implements the constructors and the inspection of a cache over a [`Store`](super::store::Store).
macro_rules! over_store {
    ($cache:ident) => {
        impl $cache {
            /// An empty cache, apart from the shared one.
            pub const fn new() -> Self {
                Self { store: Store::new() }
            }

            /// Returns the current entries.
            pub fn entries(&self) -> Vec<Entry> {
                self.store.entries()
            }

            /// Forgets everything, including seeds.
            pub fn clear(&self) {
                self.store.clear();
            }

            /// Returns the evidence under `key`, for a custom cache that keeps its evidence here under keys of its
            /// own.
            pub fn recall_by(&self, key: &Key, place: &Place<'_>) -> Option<Remembered> {
                self.store.recall(place, || *key)
            }

            /// Keeps the evidence that a call has learned, under `key`.
            pub fn remember_by(&self, key: &Key, place: &Place<'_>, learned: Remembered) {
                self.store.remember(key, place, learned);
            }

            /// Keeps the measurements of a call under `key`, for this thread alone.
            pub fn note_by(&self, key: &Key, place: &Place<'_>, measurements: &Measurements) {
                self.store.note(place, || *key, measurements);
            }

            /// Lets calls of this name start at `size`, from any call site, until they learn a size. Seeds are kept
            /// until [`clear`](Self::clear); `entries` does not list them.
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
