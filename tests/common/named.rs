//! A memory that has a name and is half free.

use std::io;

use toma::memory::{MemorySource, Reading};

#[derive(Debug)]
pub(crate) struct Named(pub(crate) &'static str);

impl MemorySource for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn read(&self) -> io::Result<Reading> {
        Ok(Reading::new(512, 1024))
    }
}
