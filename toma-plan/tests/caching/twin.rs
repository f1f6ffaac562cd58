//! The naive twin: lists of blocks in a list of segments, searched from end to end.

use crate::MIB;

/// Bytes of a block, its address, and the requested bytes if it is in use.
pub(crate) type Cell = (u64, u64, Option<u64>);

#[derive(Debug)]
pub(crate) struct Twin {
    pub(crate) capacity: u64,
    pub(crate) segments: Vec<Segment>,
    pub(crate) retries: u64,
}

#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) small: bool,
    pub(crate) cells: Vec<Cell>,
}

impl Segment {
    fn is_free(&self) -> bool {
        self.cells.iter().all(|cell| cell.2.is_none())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.0).sum()
    }

    fn end(&self) -> u64 {
        self.cells[0].1 + self.bytes()
    }
}

impl Twin {
    /// Returns the address of the block, unless memory runs out.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Option<u64> {
        if bytes >= 1 << 60 {
            return None;
        }
        let size = bytes.div_ceil(512) * 512;
        let found = self.find(size).or_else(|| self.grow(size));
        found.map(|(at, index)| self.put(at, index, size, bytes))
    }

    pub(crate) fn free(&mut self, address: u64) {
        let holds = |segment: &&mut Segment| segment.cells.iter().any(|cell| cell.1 == address);
        let segment = self.segments.iter_mut().find(holds).unwrap();
        let cell = segment.cells.iter_mut().find(|cell| cell.1 == address).unwrap();
        assert!(cell.2.take().is_some());
        while let Some(at) =
            segment.cells.windows(2).position(|pair| pair[0].2.is_none() && pair[1].2.is_none())
        {
            segment.cells[at].0 += segment.cells.remove(at + 1).0;
        }
    }

    pub(crate) fn release(&mut self) {
        self.segments.retain(|segment| !segment.is_free());
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.segments.iter().map(Segment::bytes).sum()
    }

    /// The free cells of the pool of a size: bytes, address, and the indices of segment and cell; the smallest first.
    fn free_cells(&self, size: u64) -> Vec<(u64, u64, usize, usize)> {
        let mut found = Vec::new();
        for (at, segment) in self.segments.iter().enumerate() {
            for (index, &(bytes, address, requested)) in segment.cells.iter().enumerate() {
                if requested.is_none() && segment.small == (size <= MIB) {
                    found.push((bytes, address, at, index));
                }
            }
        }
        found.sort_unstable();
        found
    }

    fn find(&self, size: u64) -> Option<(usize, usize)> {
        let found = self.free_cells(size).into_iter().find(|cell| cell.0 >= size);
        found.map(|(.., at, index)| (at, index))
    }

    fn grow(&mut self, size: u64) -> Option<(usize, usize)> {
        let bytes = match size {
            size if size <= MIB => 2 * MIB,
            size if size < 10 * MIB => 20 * MIB,
            size => size.div_ceil(2 * MIB) * 2 * MIB,
        };
        let fits = |twin: &Self| twin.reserved() + bytes <= twin.capacity;
        if !fits(self) {
            self.retries += 1;
            self.release();
        }
        if !fits(self) {
            return None;
        }
        let address = self.segments.last().map_or(0, Segment::end);
        self.segments.push(Segment { small: size <= MIB, cells: vec![(bytes, address, None)] });
        Some((self.segments.len() - 1, 0))
    }

    fn put(&mut self, at: usize, index: usize, size: u64, requested: u64) -> u64 {
        let segment = &mut self.segments[at];
        let (bytes, address, _) = segment.cells[index];
        let rest = bytes - size;
        let is_cut = if segment.small { rest > 0 } else { rest > MIB };
        if is_cut {
            segment.cells[index] = (size, address, Some(requested));
            segment.cells.insert(index + 1, (rest, address + size, None));
        } else {
            segment.cells[index] = (bytes, address, Some(requested));
        }
        address
    }
}
