//! 1,797 real digits, each also moved by one pixel in all eight directions.

use std::error::Error;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;

/// 8 × 8 gray values from 0 to 16, row by row.
pub(crate) type Image = [i16; SIDE * SIDE];

/// Images made of one digit, which are adjacent.
pub(crate) const COPIES: usize = 9;

const SIDE: usize = 8;

pub(crate) struct Digits {
    pub(crate) images: Vec<Image>,
    pub(crate) classes: Vec<u8>,
}

impl Digits {
    pub(crate) fn load() -> Result<Self, Box<dyn Error>> {
        let mut digits = Self { images: Vec::new(), classes: Vec::new() };
        // Embedded in the program, so that it runs from any folder.
        let file = GzDecoder::new(&include_bytes!("../data/digits.csv.gz")[..]);
        for line in BufReader::new(file).lines() {
            let (image, class) = parse(&line?)?;
            digits.images.extend(copies(&image));
            digits.classes.extend([class; COPIES]);
        }
        Ok(digits)
    }
}

fn parse(line: &str) -> Result<(Image, u8), Box<dyn Error>> {
    let mut values = line.split(',');
    let mut image = [0; SIDE * SIDE];
    for pixel in &mut image {
        *pixel = values.next().ok_or("a digit has too few pixels")?.parse()?;
    }
    let class = values.next().ok_or("a digit has no class")?.parse()?;
    Ok((image, class))
}

/// The digit as it is, and moved in each direction.
fn copies(image: &Image) -> impl Iterator<Item = Image> {
    let moves = (-1..=1).flat_map(|down| (-1..=1).map(move |right| (down, right)));
    moves.map(|(down, right)| moved(image, down, right))
}

/// Moves an image: pixels beyond the border are lost, and new ones are white.
fn moved(image: &Image, down: isize, right: isize) -> Image {
    let from = |to: usize, by: isize| to.checked_add_signed(-by).filter(|from| *from < SIDE);
    std::array::from_fn(|at| match (from(at / SIDE, down), from(at % SIDE, right)) {
        (Some(row), Some(column)) => image[row * SIDE + column],
        _ => 0,
    })
}
