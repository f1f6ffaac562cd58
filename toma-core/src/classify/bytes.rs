//! Finds the requested bytes of a failed allocation in an error's text.

use super::Class;

/// Words before an amount with a unit.
const AMOUNT_FOLLOWS: [&str; 6] = [
    "tried to allocate ",
    "trying to allocate ",
    "allocating ",
    "can't allocate ",
    "invalid buffer size: ",
    "failed to reserve ",
];

/// Words before a plain number of bytes.
const BYTES_FOLLOW: [&str; 7] = [
    "layout { size: ",
    "requested_bytes: some(",
    "requested buffer of size ",
    "smaller than requested bytes of ",
    "buffer of size: ",
    "allocation of size ",
    "buffertoobig(",
];

/// Bytes per unit. `GB` means GiB: the libraries that print it divide by 1024.
const UNITS: [(&[&str], u32); 6] = [
    (&["bytes", "byte", "b"], 0),
    (&["kib", "kb"], 10),
    (&["mib", "mb"], 20),
    (&["gib", "gb"], 30),
    (&["tib", "tb"], 40),
    (&["eib", "eb"], 60),
];

/// Number of decimals that are read: more than any library prints, few enough for the product to fit.
const MOST_DECIMALS: usize = 9;

/// Returns the requested bytes in a normalized text; `None` for a class that does not concern memory, where a
/// number means something else.
pub(super) fn requested_bytes(class: Class, text: &str) -> Option<u64> {
    if !matches!(class, Class::OutOfMemory | Class::Transient) {
        return None;
    }
    let after = |words: &'static str| text.match_indices(words).map(move |(at, _)| &text[at + words.len()..]);
    let plain = || BYTES_FOLLOW.into_iter().flat_map(after).find_map(|rest| scaled(rest, 0));
    AMOUNT_FOLLOWS.into_iter().flat_map(after).find_map(amount).or_else(plain)
}

/// Parses an amount with its unit, such as `2.00 gib` or `more than 1eb`.
fn amount(rest: &str) -> Option<u64> {
    let rest = rest.strip_prefix("more than ").unwrap_or(rest);
    let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    let unit = unit.split(|c: char| !c.is_ascii_alphabetic()).next()?;
    let (_, shift) = UNITS.iter().find(|(names, _)| names.contains(&unit))?;
    scaled(rest, *shift)
}

/// Parses the decimal number at the beginning of `rest`, times two to the power of `shift`, rounded down.
fn scaled(rest: &str, shift: u32) -> Option<u64> {
    let (whole, rest) = digits(rest);
    let decimals = rest.strip_prefix('.').map_or("", |rest| digits(rest).0);
    let (numerator, denominator) = decimals
        .bytes()
        .take(MOST_DECIMALS)
        .fold((0, 1), |(top, bottom), digit| (top * 10 + u128::from(digit - b'0'), bottom * 10));
    let whole = u128::from(whole.parse::<u64>().ok()?) << shift;
    u64::try_from(whole + (numerator << shift) / denominator).ok()
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len())
}
