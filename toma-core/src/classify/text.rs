//! Reading an error's text: which part of it is the message, and how it is compared.

/// Characters kept of a message.
const LONGEST_MESSAGE: usize = 200;

/// Where libtorch's own words end and its C++ backtrace begins, which names functions that fail for
/// any reason.
const BACKTRACE: &str = "exception raised from";

/// The same for errors that print bare frames, and for Rust backtraces; only at the start of a
/// line, because a message may well speak of a frame.
const BACKTRACE_LINES: [&str; 2] = ["frame #0:", "stack backtrace:"];

/// The first line of the message part, shortened to what fits into one line of a log.
pub(super) fn message(text: &str) -> String {
    let part = message_part(text).trim_start();
    part[..line_end(part)].chars().take(LONGEST_MESSAGE).collect::<String>().trim_end().to_owned()
}

pub(super) fn message_part(text: &str) -> &str {
    // ASCII lower case, unlike full lower case, keeps every byte where it is.
    let lower = text.to_ascii_lowercase();
    let starts_line = |at: &usize| lower[..*at].ends_with('\n') || lower[..*at].ends_with("\\n");
    let frames = BACKTRACE_LINES
        .iter()
        .filter_map(|mark| lower.match_indices(mark).map(|(at, _)| at).find(starts_line));
    let end = frames.chain(lower.find(BACKTRACE)).min();
    &text[..end.unwrap_or(text.len())]
}

/// Where the first line ends: at a line break, or at an escaped one inside a Debug string. Outside
/// of quotes `\n` is more likely part of a path.
fn line_end(part: &str) -> usize {
    let quote = part.find('"').unwrap_or(part.len());
    let escaped = part.match_indices("\\n").map(|(at, _)| at);
    let escaped = escaped.filter(|at| *at > quote && !part[..*at].ends_with('\\')).min();
    part.find(['\n', '\r']).into_iter().chain(escaped).min().unwrap_or(part.len())
}

/// The text as it is compared: lower case, and one space for every run of spaces, control
/// characters, double quotes, non-ASCII characters and Debug escapes of any of them.
///
/// A text and its Debug form, escaped once or many times, are therefore the same. Everything that
/// Debug may escape has to go, since which characters it escapes changes with Unicode versions.
pub(super) fn normalized(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(lower.len());
    let mut rest = lower.as_str();
    while !rest.is_empty() {
        let gap = gap_len(rest);
        if gap == 0 {
            out.push_str(&rest[..1]);
        } else if !out.ends_with(' ') {
            out.push(' ');
        }
        rest = &rest[gap.max(1)..];
    }
    out
}

/// Bytes at the beginning of `rest` that count as a space; where it is 0, a printable ASCII
/// character stands.
fn gap_len(rest: &str) -> usize {
    let slashes = rest.len() - rest.trim_start_matches('\\').len();
    match rest.chars().next() {
        Some('\\') => slashes + escape_len(&rest.as_bytes()[slashes..]),
        Some(char) if !char.is_ascii_graphic() || char == '"' => char.len_utf8(),
        _ => 0,
    }
}

/// Bytes of an escape after its backslashes.
fn escape_len(rest: &[u8]) -> usize {
    match rest {
        [b'n' | b'r' | b't' | b'0' | b'"', ..] => 1,
        [b'u', b'{', hex @ ..] => {
            let digits = hex.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            if hex.get(digits) == Some(&b'}') { digits + 3 } else { 0 }
        }
        _ => 0,
    }
}
